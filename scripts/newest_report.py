"""What scripts/newest.sh says: the comparisons that fail with the newest packages, or did not take place, with the versions.

    newest_report.py RESULTS.xml    # JUnit's format, as ctest writes it

Prints nothing if there is nothing to say. Runs under the Python whose packages were compared with."""

import importlib.metadata
import sys
import xml.etree.ElementTree

COMPARED = ("transformers", "tokenizers", "timm", "pillow", "scipy", "lm_eval", "torch")


def versions():
    found = []
    for name in COMPARED:
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            found.append(f"no {name}")
    return ", ".join(found)


def warnings(results, packages):
    """The lines, of the root of ctest's results and of a text about the packages."""
    names = {"fail": [], "skipped": []}
    count = 0
    for case in results.iter("testcase"):
        count += 1
        status = "skipped" if case.get("status") in ("notrun", "disabled") or case.find("skipped") is not None else case.get("status")
        if status in names:
            names[status].append(case.get("name"))
    if count == 0:
        return ["NOTHING WAS COMPARED WITH THE NEWEST PACKAGES: the build has no test with the label compares"]
    lines = []
    if names["fail"]:
        lines.append(f"THE NEWEST PACKAGES DIFFER in {', '.join(names['fail'])} ({packages})")
    if names["skipped"]:
        lines.append(f"NOT COMPARED WITH THE NEWEST PACKAGES: {', '.join(names['skipped'])} ({packages})")
    return lines


if __name__ == "__main__":
    print("\n".join(warnings(xml.etree.ElementTree.parse(sys.argv[1]).getroot(), versions())), end="")
