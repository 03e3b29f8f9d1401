"""Anomaly mode."""

import warnings

from tests.autograd.torch_contract.scenarios import raises, scenario, variable


@raises("RuntimeError")
def anomaly_raises_on_nan(lib):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with lib.autograd.detect_anomaly():
            lib.sqrt(variable(lib)).sum().backward()


@scenario
def anomaly_does_not_raise_on_infinity(lib):
    x = variable(lib, 0.0, 1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with lib.autograd.detect_anomaly():
            lib.sqrt(x).sum().backward()
    return x.grad


@scenario
def anomaly_without_checking_nan(lib):
    x = variable(lib)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with lib.autograd.detect_anomaly(check_nan=False):
            lib.sqrt(x).sum().backward()
    return x.grad


@scenario
def anomaly_is_over_after_the_block(lib):
    x = variable(lib)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with lib.autograd.set_detect_anomaly(True), lib.autograd.set_detect_anomaly(False):
            lib.sqrt(x).sum().backward()
    lib.sqrt(x).sum().backward()
    return x.grad
