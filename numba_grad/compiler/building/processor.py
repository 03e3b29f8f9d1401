"""By what a running system is told from all others, so that what was found out about its processor
holds as long as it runs."""

import os

_BOOT = "/proc/sys/kernel/random/boot_id"
_PROCESSORS = "/proc/cpuinfo"
_FIRST_BYTES = 4096  # the first processor: to write of all takes as long as there are many
_CHANGING = (
    "processor",
    "cpu MHz",
    "bogomips",
    "apicid",
    "initial apicid",
    "core id",
    "physical id",
)


def running_system() -> str | None:
    """Its name, the same in all processes until it starts anew: None where it has none.

    The number of the start would do, but for sandboxes that make it up. With it goes what the
    system says of a processor; that alone would not do, as it may leave out what it does not know.
    """
    try:
        return f"{_text_of(_BOOT)} {_first_processor(_text_of(_PROCESSORS))}"
    except OSError:
        return None


def _text_of(file: str) -> str:
    number = os.open(file, os.O_RDONLY)
    try:
        return os.read(number, _FIRST_BYTES).decode(errors="replace")
    finally:
        os.close(number)


def _first_processor(text: str) -> str:
    lines = text.split("\n\n")[0].splitlines()
    return "\n".join([line for line in lines if not line.startswith(_CHANGING)])
