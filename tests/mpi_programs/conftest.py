"""Programs for `mpiexec`, not for pytest."""

collect_ignore_glob = ["*.py"]
