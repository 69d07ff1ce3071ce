"""The base of training penalties."""

from inspect import signature

import torch


class Penalty(torch.nn.Module):
    """A training penalty. It prints the arguments that it was made with, which are its attributes."""

    def extra_repr(self) -> str:
        arguments = {name: getattr(self, name) for name in signature(type(self)).parameters}
        return ", ".join(f"{name}={value!r}" for name, value in arguments.items() if value is not None)
