"""Programs that tests import, not for pytest."""

collect_ignore = ["programs"]
