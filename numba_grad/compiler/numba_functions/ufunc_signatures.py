"""What the signature of a generalized ufunc says: "(m,n),(n)->(m)"."""

import re


def core_axes(signature: str) -> list[tuple[str, ...]]:
    """The names of the axes of each argument and result."""
    found = re.findall(r"\(([^)]*)\)", signature)
    return [tuple([name.strip() for name in axes.split(",") if name.strip()]) for axes in found]
