"""Tensors on a GPU from and to other libraries. What arrays do below them: test_exchange.py."""

import gc

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.errors import DTypeError, ForeignArrayError, GradientError, TracingError
from numba_grad.runtime import dlpack
from tests.cuda.test_exchange import Foreign, ForeignDlpack, read

VALUE = np.arange(6.0).reshape(2, 3)


def numbers(tensor):
    return tensor._node.value.to_host()


def address(tensor):
    return tensor._node.value.address


@pytest.mark.parametrize("kind", [Foreign, ForeignDlpack])
def test_tensors_of_their_memory(emulated, kind):
    x = kind(VALUE)
    take = ng.from_dlpack if kind is ForeignDlpack else ng.tensor
    tensor = take(x, copy=False)
    assert (tensor.device, tensor.shape, tensor.dtype) == ("cuda:0", (2, 3), np.float64)
    assert address(tensor) == x.memory.address
    np.testing.assert_array_equal(numbers(tensor), VALUE)
    np.testing.assert_array_equal(tensor.cpu().numpy(), VALUE)


def test_tensors_of_copies(emulated):
    x = Foreign(VALUE)
    for tensor in (ng.tensor(x, requires_grad=True), ng.asarray(x), ng.array(x)):
        assert address(tensor) != x.memory.address
        np.testing.assert_array_equal(numbers(tensor), VALUE)
    assert ng.tensor(x, requires_grad=True).requires_grad
    y = ForeignDlpack(VALUE)
    for copy in (True, None):
        assert address(ng.from_dlpack(y, copy=copy)) != y.memory.address


def test_tensors_elsewhere(emulated):
    for tensor in (
        ng.tensor(Foreign(VALUE), device="cpu"),
        ng.from_dlpack(ForeignDlpack(VALUE), device="cpu"),
    ):
        assert tensor.device == "cpu"
        np.testing.assert_array_equal(tensor.numpy(), VALUE)
    there = ng.from_dlpack(VALUE, device="cuda:1")
    assert there.device == "cuda:1"
    np.testing.assert_array_equal(there.cpu().numpy(), VALUE)
    for x, device in ((ForeignDlpack(VALUE), "cuda:1"), (VALUE, "cuda")):
        with pytest.raises(BufferError, match="a copy is needed to move it to cuda"):
            ng.from_dlpack(x, device=device, copy=False)


def test_transposes_of_their_memory(emulated):
    x = Foreign(VALUE.T)
    tensor = ng.tensor(x, copy=False)
    assert tensor.shape == (3, 2)
    # No copy: kernels that use it read it in the order in which it lies.
    assert tensor._node.op.name == "transpose"
    assert tensor._node.inputs[0].value.address == x.memory.address
    np.testing.assert_array_equal((2 * tensor).cpu().numpy(), 2 * VALUE.T)


class View(Foreign):
    """A view of somebody's array: any steps, and any start."""

    def __init__(self, view):
        base = view.base
        super().__init__(base)
        offset = view.ctypes.data - base.ctypes.data
        self.interface.update(
            shape=view.shape,
            strides=view.strides,
            typestr=view.dtype.str,
            data=(self.memory.address + offset, False),
        )


TABLE = np.arange(60.0).reshape(3, 4, 5)
VIEWS = {
    "backwards": TABLE[::-1, :, ::-1],
    "with gaps": TABLE[:, ::2, 1:4],
    "transposed with gaps": TABLE[:, 1::3].T,
    "repeated": np.broadcast_to(TABLE[1], (2, 4, 5)),
    "one column": TABLE[:, 2, 3],
    "the last element": TABLE[-1:, -1:, -1:],
}


@pytest.mark.parametrize("name", VIEWS)
def test_copies_of_any_order(emulated, name):
    x = View(VIEWS[name])
    tensor = ng.tensor(x)
    x.memory.fill_from(np.zeros(x.memory.shape))  # it is a copy, made at once
    np.testing.assert_array_equal(tensor.cpu().numpy(), VIEWS[name])


def test_copies_of_misaligned_elements(emulated):
    raw = np.zeros(36, np.uint8)
    raw[4:] = np.arange(4.0).view(np.uint8)
    x = Foreign(raw)
    x.interface.update(data=(x.memory.address + 4, False), shape=(4,), typestr="<f8", strides=(8,))
    np.testing.assert_array_equal(ng.tensor(x).cpu().numpy(), np.arange(4.0))
    x.interface.update(shape=(2,), strides=(16,))
    np.testing.assert_array_equal(ng.tensor(x).cpu().numpy(), [0.0, 2.0])
    x.interface.update(strides=(12,))
    with pytest.raises(ForeignArrayError, match="left-out elements"):
        ng.tensor(x)


def test_dlpack_copies_where_it_has_to(emulated):
    x = ForeignDlpack(VALUE)
    x.interface.update(shape=(3,), strides=(16,))
    np.testing.assert_array_equal(ng.from_dlpack(x).cpu().numpy(), [0.0, 2.0, 4.0])
    with pytest.raises(ForeignArrayError, match="left-out elements"):
        ng.from_dlpack(x, copy=False)


def test_wrong_arrays_are_refused(emulated):
    x = View(VIEWS["backwards"])
    with pytest.raises(ForeignArrayError, match="negative elements"):
        ng.tensor(x, copy=False)
    x.interface["strides"] = (-161, 40, -8)
    with pytest.raises(ForeignArrayError, match=r"no memory of a GPU|negative"):
        ng.tensor(x)
    with pytest.raises(DTypeError, match="a dtype that tensors do not have"):
        ng.asarray(Foreign(VALUE, typestr=">f8"))


@pytest.mark.thorough(but="late")
def test_their_memory_lives_as_long_as_the_tensor(emulated):
    x = ForeignDlpack(VALUE)
    tensor = ng.from_dlpack(x, copy=False)
    gc.collect()
    assert x.deleted == 0
    del tensor
    gc.collect()
    assert x.deleted == 1


def test_the_interface_of_a_tensor(emulated):
    tensor = ng.tensor(VALUE, device="cuda:1")
    interface = tensor.__cuda_array_interface__
    assert interface["data"] == (address(tensor), True)
    assert (interface["shape"], interface["typestr"], interface["stream"]) == ((2, 3), "<f8", 1)


def test_the_capsule_of_a_tensor(emulated):
    tensor = ng.tensor(VALUE, device="cuda:1")
    assert tensor.__dlpack_device__() == (2, 1)
    capsule = tensor.__dlpack__(stream=1, max_version=(1, 0))
    assert read(capsule).data == address(tensor)
    managed = dlpack.ManagedVersioned.from_address(
        dlpack.pointer_of(capsule, b"dltensor_versioned")
    )
    assert managed.flags & 1  # read-only
    # Those who cannot be told get a copy, unless they refuse one.
    assert read(tensor.__dlpack__(stream=1), b"dltensor").data != address(tensor)
    shared = tensor.__dlpack__(stream=1, copy=False)
    assert read(shared, b"dltensor").data == address(tensor)
    host = tensor.__dlpack__(dl_device=(1, 0), max_version=(1, 0))
    assert read(host).device_type == 1


def test_tensors_in_host_memory_have_no_interface():
    tensor = ng.tensor(VALUE)
    assert not hasattr(tensor, "__cuda_array_interface__")
    assert tensor.__dlpack_device__() == (1, 0)


def test_gradients_are_not_lost_silently(emulated):
    tensor = ng.tensor(VALUE, device="cuda", requires_grad=True)
    with pytest.raises(GradientError, match=r"x\.detach\(\)"):
        _ = tensor.__cuda_array_interface__
    with pytest.raises(BufferError, match=r"x\.detach\(\)"):
        tensor.__dlpack__()
    assert (2 * tensor.detach()).__cuda_array_interface__["shape"] == (2, 3)


def test_gradients_of_their_values(emulated):
    x = ng.tensor(Foreign(VALUE), requires_grad=True)
    np.exp(x).sum().backward()
    np.testing.assert_allclose(x.grad.cpu().numpy(), np.exp(VALUE), rtol=1e-15)
    y = ng.from_dlpack(ForeignDlpack(VALUE)).requires_grad_()
    (y * y).sum().backward()
    np.testing.assert_array_equal(y.grad.cpu().numpy(), 2 * VALUE)


def test_what_is_not_computed_yet_is_computed_for_them(emulated):
    x = ng.tensor(VALUE, device="cuda")
    with ng.cuda.stream(ng.cuda.Stream()) as stream:
        interface = (x + 1).__cuda_array_interface__
    assert interface["stream"] == stream.handle
    tensor = read((x + 1).__dlpack__(max_version=(1, 0)))
    with ng.cuda.stream(stream):
        ng.cuda.synchronize()
    found = emulated.memory(tensor.data, 48).view(float)[:6]
    np.testing.assert_array_equal(found, VALUE.reshape(-1) + 1)


def test_traced_tensors_have_no_memory(emulated):
    @ng.jit
    def function(x):
        return ng.asarray(x.__cuda_array_interface__["shape"])

    with pytest.raises(TracingError):
        function(ng.tensor(VALUE, device="cuda"))
