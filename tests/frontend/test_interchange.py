"""Arrays to and from other libraries through DLPack, and to and from files."""

import io

import numpy as np
import pytest

import numba_grad as ng
from numba_grad.errors import DTypeError, TracingError
from numba_grad.graph.types import DTYPES

pytestmark = pytest.mark.usefixtures("numpy_engine")


class Exporting:
    """What another library's array offers, and no more; `asked` is what it was asked for."""

    def __init__(self, array):
        self.array, self.asked = array, {}

    def __dlpack__(self, **arguments):
        self.asked = arguments
        return self.array.__dlpack__(**arguments)

    def __dlpack_device__(self):
        return (1, 0)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_exported_memory_is_shared_and_read_only(dtype):
    x = ng.tensor(np.arange(6).reshape(2, 3).astype(dtype))
    array = np.from_dlpack(x)
    assert (array.dtype, array.shape) == (dtype, (2, 3))
    assert np.shares_memory(array, x.numpy()) and not array.flags.writeable
    np.testing.assert_array_equal(array, x)
    again = ng.from_dlpack(array, copy=False)
    assert np.shares_memory(again.numpy(), array) and again.dtype == dtype


def test_exporting_computes_what_was_recorded():
    x = ng.tensor([1.0, 2.0]) * 3
    assert x.__dlpack_device__() == (1, 0) and x._node.value is None
    assert np.from_dlpack(x).tolist() == [3.0, 6.0]
    assert np.from_dlpack(ng.tensor(2.5)).item() == 2.5
    assert np.from_dlpack(ng.zeros((0, 3))).shape == (0, 3)
    with pytest.raises(TracingError, match="__dlpack__"):
        ng.jit(lambda x: np.from_dlpack(x) * x)(np.ones(2))


def test_exported_memory_outlives_the_tensor():
    x = ng.tensor(np.arange(100_000.0)) + 1
    array = np.from_dlpack(x)
    del x
    others = [(ng.zeros(100_000) - k).numpy() for k in range(5)]  # would reuse memory set free
    assert len(others) == 5 and (array == np.arange(1.0, 100_001)).all()


def test_a_consumer_that_knows_no_flags_gets_a_copy_unless_it_refuses_one():
    x = ng.tensor([1.0, 2.0])
    array = np.from_dlpack(Exporting(_Old(x)))
    assert array.tolist() == [1.0, 2.0] and not np.shares_memory(array, x.numpy())
    shared = np.from_dlpack(Exporting(_Old(x, copy=False)))
    assert np.shares_memory(shared, x.numpy())
    copied = np.from_dlpack(x, copy=True)
    assert not np.shares_memory(copied, x.numpy())


def test_a_consumer_that_knows_no_flags_gets_bfloat16():
    pytest.importorskip("ml_dtypes", reason="the dtype bfloat16 of NumPy")
    half = ng.tensor([1.0, 2.0], dtype=ng.bfloat16)
    assert ng.from_dlpack(Exporting(_Old(half, copy=False))).tolist() == [1.0, 2.0]


class _Old:
    """Asks as libraries did before DLPack 1.0."""

    def __init__(self, x, **arguments):
        self.x, self.arguments = x, arguments

    def __dlpack__(self, **arguments):
        return self.x.__dlpack__(**self.arguments)


def test_what_is_not_exported():
    x = ng.tensor([1.0], requires_grad=True)
    for tensor in (x, x * 2):
        with pytest.raises(BufferError, match=r"requires grad(.|\n)*try: x\.detach\(\)"):
            np.from_dlpack(tensor)
    assert np.from_dlpack(x.detach()).tolist() == [1.0]
    with pytest.raises(BufferError, match="no such device"):
        ng.tensor([1.0]).__dlpack__(dl_device=(2, 0))


def test_what_is_recorded_of_imported_memory_is_of_that_moment():
    a = np.arange(3.0)
    y = ng.from_dlpack(a) * 2
    a[:] = 100
    assert y.tolist() == [0.0, 2.0, 4.0]


def test_imported_memory_is_shared_where_that_is_asked_for():
    a = np.arange(3.0)
    x, y, z = ng.from_dlpack(a, copy=False), ng.from_dlpack(a, copy=True), ng.from_dlpack(a)
    a[0] = 7.0
    assert x.tolist() == [7.0, 1.0, 2.0] and y.tolist() == z.tolist() == [0.0, 1.0, 2.0]
    assert x.is_leaf and not x.requires_grad
    x[1] = 5.0  # moves the handle, and leaves the memory of others alone
    assert a.tolist() == [7.0, 1.0, 2.0]
    turned = np.arange(6.0).reshape(2, 3).T
    z = ng.from_dlpack(turned)
    np.testing.assert_array_equal(z, turned)
    assert not np.shares_memory(z.numpy(), turned)
    source = Exporting(np.ones(2))
    ng.from_dlpack(source, device="cpu", copy=False)
    assert source.asked["copy"] is False


def test_what_is_not_imported():
    with pytest.raises(BufferError, match="row-major"):
        ng.from_dlpack(np.zeros((2, 3)).T, copy=False)
    with pytest.raises(AttributeError, match=r"exports itself(.|\n)*ng\.asarray\(x\)"):
        ng.from_dlpack([1.0])  # type: ignore[arg-type]
    with pytest.raises(ng.errors.DeviceError):
        ng.from_dlpack(np.ones(2), device="cuda")
    with pytest.raises((BufferError, DTypeError)):
        ng.from_dlpack(np.ones(2, np.longdouble))


def test_torch_both_ways():
    torch = pytest.importorskip("torch")
    x = ng.tensor([[1.0, 2.0], [3.0, 4.0]])
    t = torch.from_dlpack(x)
    assert t.data_ptr() == x.numpy().ctypes.data and t.tolist() == x.tolist()
    assert ng.from_dlpack(t, copy=False).numpy().ctypes.data == t.data_ptr()
    assert ng.from_dlpack(torch.arange(6).reshape(2, 3).T).tolist() == [[0, 3], [1, 4], [2, 5]]
    copied = torch.from_dlpack(x, copy=True)
    copied[0, 0] = 7.0
    assert x[0, 0].item() == 1.0
    with pytest.raises(BufferError, match=r"torch\.float8"):
        ng.from_dlpack(torch.zeros(2).to(torch.float8_e4m3fn))
    with pytest.raises(BufferError, match="require"):
        ng.from_dlpack(torch.zeros(2, requires_grad=True))
    with pytest.raises(BufferError, match="requires grad"):
        torch.from_dlpack(ng.tensor([1.0], requires_grad=True))


# Files


def test_files_of_one_array(tmp_path):
    x = ng.tensor([[1.0, -0.0], [np.nan, np.inf]], requires_grad=True)
    for number, write in enumerate((ng.save, np.save)):
        path = tmp_path / f"{number}.npy"
        write(path, x * 1)
        loaded = ng.load(path)
        assert isinstance(loaded, ng.Tensor) and not loaded.requires_grad
        assert loaded.numpy().tobytes() == x.detach().numpy().tobytes()
        np.testing.assert_array_equal(np.load(path), x.detach())
        with path.open("rb") as file:
            assert ng.load(file).shape == (2, 2)
    buffer = io.BytesIO()
    ng.save(buffer, np.asfortranarray(np.arange(6).reshape(2, 3)))
    buffer.seek(0)
    assert ng.load(buffer).tolist() == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize("write", [ng.savetxt, np.savetxt])
def test_text(tmp_path, write):
    x = np.array([[1.0, 1 / 3], [np.nan, -np.inf]])
    texts = []
    for number, (function, given) in enumerate(((np.savetxt, x), (write, ng.tensor(x)))):
        file = tmp_path / f"{number}.txt"
        function(file, given, fmt="%.17g", delimiter=", ", header="a, b", comments="% ")
        texts.append(file.read_text())
    assert texts[0] == texts[1]
    np.testing.assert_array_equal(np.loadtxt(file, delimiter=",", comments="%"), x)


def test_files_of_several_arrays(tmp_path):
    x, y = ng.tensor(1.5), ng.arange(3)
    for number, write in enumerate((ng.savez, np.savez, ng.savez_compressed, np.savez_compressed)):
        path = tmp_path / f"{number}.npz"
        write(path, x, y=y + 0, z=[1, 2])
        loaded = ng.load(path)
        assert isinstance(loaded, dict) and set(loaded) == {"arr_0", "y", "z"}
        assert loaded["arr_0"].item() == 1.5 and loaded["y"].tolist() == [0, 1, 2]
        assert loaded["z"].dtype == np.int64


def test_files_without_headers(tmp_path):
    path = tmp_path / "numbers"
    np.arange(5, dtype="f4").tofile(path)
    assert ng.fromfile(path, "f4", 3, offset=4).tolist() == [1.0, 2.0, 3.0]
    assert ng.fromfile(path, "f4").dtype == np.float32
    assert ng.fromstring("1 2 3", int, 2, sep=" ").tolist() == [1, 2]
    assert ng.loadtxt(io.StringIO("1,2\n3,4"), delimiter=",").tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_files_that_run_code_are_not_loaded(tmp_path):
    path = tmp_path / "objects.npy"
    np.save(path, np.array([{}]), allow_pickle=True)
    with pytest.raises(ValueError, match="allow_pickle"):
        ng.load(path)
    with pytest.raises(TracingError, match="save"):
        ng.jit(lambda x: ng.save(path, x) or x)(np.ones(2))
