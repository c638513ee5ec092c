"""Reverse-mode differentiation of scalars in plain float64 Python, for scripts that make golden models: each operation puts a Number on a
tape, with the derivatives by its operands, and differentiate() walks the tape backwards."""

import math


class Number:
    tape = []

    def __init__(self, value, operands=()):
        self.value, self.operands, self.grad = value, operands, 0.0
        Number.tape.append(self)

    def __add__(self, other):
        other = number(other)
        return Number(self.value + other.value, ((self, 1.0), (other, 1.0)))

    def __mul__(self, other):
        other = number(other)
        return Number(self.value * other.value, ((self, other.value), (other, self.value)))

    def __sub__(self, other):
        return self + number(other) * -1.0

    def __truediv__(self, other):
        other = number(other)
        return Number(self.value / other.value, ((self, 1 / other.value), (other, -self.value / other.value**2)))

    __radd__, __rmul__ = __add__, __mul__


def number(x):
    return x if isinstance(x, Number) else Number(float(x))


def total(numbers):
    return Number(math.fsum(n.value for n in numbers), tuple((n, 1.0) for n in numbers))


def dot(a, b):
    return Number(math.fsum(x.value * y.value for x, y in zip(a, b)),
                  tuple((x, y.value) for x, y in zip(a, b)) + tuple((y, x.value) for x, y in zip(a, b)))


def function(f, derivative):
    return lambda x: Number(f(x.value), ((x, derivative(x.value)),))


exp = function(math.exp, math.exp)
log = function(math.log, lambda v: 1 / v)
root = function(math.sqrt, lambda v: 0.5 / math.sqrt(v))
relu = function(lambda v: max(v, 0.0), lambda v: float(v > 0))
gelu = function(lambda v: 0.5 * v * (1 + math.erf(v / math.sqrt(2))),
                lambda v: 0.5 * (1 + math.erf(v / math.sqrt(2))) + v * math.exp(-v * v / 2) / math.sqrt(2 * math.pi))
silu = function(lambda v: v / (1 + math.exp(-v)), lambda v: (1 + math.exp(-v) + v * math.exp(-v)) / (1 + math.exp(-v)) ** 2)


def log_sum_exp(z):
    top = max(n.value for n in z)
    return log(total([exp(n - top) for n in z])) + top


def softmax(z):
    top = max(n.value for n in z)
    e = [exp(n - top) for n in z]
    s = total(e)
    return [n / s for n in e]


def straight_through(value, of):
    """A constant with the derivative of another number."""
    return Number(value, ((of, 1.0),))


def differentiate(result):
    """Sets the derivatives of `result` by all numbers, and begins a new tape."""
    result.grad = 1.0
    for n in reversed(Number.tape):
        for operand, derivative in n.operands:
            operand.grad += n.grad * derivative
    Number.tape = []
