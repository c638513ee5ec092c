"""What scripts/reproduce.py is made of: the paper's tables, their trainings at full size and at a size for a small machine."""
