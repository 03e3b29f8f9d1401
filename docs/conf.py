"""The site: `make docs` writes it to build/site. Examples run while it is built."""

import builtins
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from sphinx_gallery.scrapers import figure_rst

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"

# What the pages about define by run and `jit` say holds for the default engine.
os.environ.pop("NUMBA_GRAD_ENGINE", None)

project = "numba_grad"
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["gallery/GALLERY_HEADER.rst"]
suppress_warnings = ["config.cache"]  # settings with functions in them are not kept
default_role = "code"  # `x` in docstrings is code
html_theme = "furo"
html_title = "numba_grad"

myst_heading_anchors = 4
myst_enable_extensions = ["dollarmath"]

autodoc_typehints = "none"  # they stand in the docstrings, in words
autodoc_member_order = "alphabetical"
napoleon_google_docstring = False
napoleon_use_rtype = False


# Which of NumPy's namespaces has the functions of a module of ours under the same names.
NUMPYS = {"numba_grad.frontend.lin": np.linalg, "numba_grad.frontend.fft": np.fft}


def is_numpys(app: Any, what: str, name: str, value: Any, skip: bool, options: Any) -> bool | None:
    """Leave what NumPy documents to NumPy."""
    module = getattr(value, "__module__", None) or ""
    theirs = [np, *(found for start, found in NUMPYS.items() if module.startswith(start))]
    is_theirs = what == "module" and any(hasattr(found, name) for found in theirs)
    return True if is_theirs else None


def keep_bars(app: Any, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """|x| is an absolute value, not a substitution, where it is not code."""
    for number, line in enumerate(lines):
        parts = line.split("`")
        parts[::2] = [text.replace("|", r"\|") for text in parts[::2]]
        lines[number] = "`".join(parts)


def setup(app: Any) -> None:
    app.connect("autodoc-skip-member", is_numpys)
    app.connect("autodoc-process-docstring", keep_bars)


def saved_plots(block: Any, variables: Mapping[str, Any], settings: Mapping[str, Any]) -> str:
    """The plots that an example has written, which belong to its page then."""
    found = []
    for plot in sorted(EXAMPLES.glob("*.png")):
        target = next(variables["image_path_iterator"])
        shutil.move(plot, target)
        found.append(target)
    return figure_rst(found, settings["src_dir"])


def name_file(settings: Mapping[str, Any], path: str) -> None:
    """Let an example find its data beside itself: what runs it here gives it no `__file__`."""
    builtins.__file__ = path  # type: ignore[attr-defined]


sphinx_gallery_conf = {
    "examples_dirs": str(EXAMPLES),
    "gallery_dirs": "gallery",
    "filename_pattern": r"/(?!mpi_)\w+\.py$",  # mpiexec runs the others
    "reset_modules": (name_file, "matplotlib"),
    "image_scrapers": (saved_plots,),
    "download_all_examples": False,
    "show_memory": False,
    "remove_config_comments": True,
    "abort_on_example_error": True,
}
