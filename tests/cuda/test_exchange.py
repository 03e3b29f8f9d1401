"""Arrays from and to other libraries: both protocols, both ways, with streams and lifetimes.

The other libraries are played by small classes that do what the texts of the protocols say.
"""

import ctypes
from typing import ClassVar

import numpy as np
import pytest

from numba_grad.errors import DeviceError, DTypeError, ForeignArrayError
from numba_grad.frontend import cuda
from numba_grad.runtime import dlpack
from numba_grad.runtime.cuda import arrays
from numba_grad.runtime.cuda.devices import active
from numba_grad.runtime.cuda.imports import from_cuda_array_interface, from_dlpack
from numba_grad.runtime.cuda.interface import PointerAttributes
from tests.cuda.host_driver import HostDriver, Misuse, installed

DTYPES = ["?", "i1", "u2", "i4", "u8", "f2", "f4", "f8", "c8", "c16"]


class Foreign:
    """An array of a library that has memory of its own, and a stream."""

    def __init__(self, value, on=None, **changes):
        value = np.asarray(value)
        self.stream = cuda.current_stream() if on is None else on
        self.device = self.stream.device.index
        # The elements as they lie in memory.
        self.memory = arrays.from_host(value.ravel(order="K"), self.device, self.stream)
        self.interface = {
            "shape": value.shape,
            "typestr": value.dtype.str,
            "data": (self.memory.address, False),
            "strides": value.strides,
            "version": 3,
            "stream": self.stream.handle or 1,
            **changes,
        }

    @property
    def __cuda_array_interface__(self):
        return self.interface


class ForeignDlpack(Foreign):
    """The same, by DLPack, with structures of its own. Counts how often it was asked to delete."""

    lent: ClassVar[list] = []  # arrays that live until they are deleted

    def __init__(self, value, on=None, is_old=False, **changes):
        super().__init__(value, on)
        self.is_old = is_old
        self.changes = changes
        self.asked = []
        self.deleted = 0

    def __dlpack_device__(self):
        return self.changes.get("kind", 2), self.device

    def __dlpack__(self, *, stream=None, **arguments):
        if self.is_old and arguments:
            raise TypeError("unexpected keyword argument 'max_version'")
        self.asked.append({"stream": stream, **arguments})
        taker = cuda.external_stream(stream, self.device)
        taker.wait_stream(self.stream)
        shape, strides = self.interface["shape"], self.interface["strides"]
        dtype = np.dtype(self.interface["typestr"])
        rank = len(shape)
        self.extents = (ctypes.c_int64 * (2 * rank))(
            *shape, *(s // dtype.itemsize for s in strides)
        )

        @ctypes.CFUNCTYPE(None, ctypes.c_void_p)
        def delete(address):
            self.deleted += 1
            self.lent.remove(self)

        self.delete = delete
        self.lent.append(self)
        form = dlpack.Managed if self.is_old else dlpack.ManagedVersioned
        self.managed = managed = form(deleter=ctypes.cast(delete, ctypes.c_void_p).value)
        tensor = managed.tensor
        tensor.data = self.memory.address
        tensor.device_type, tensor.device_id = self.__dlpack_device__()
        tensor.ndim = rank
        tensor.code = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}[dtype.kind]
        tensor.bits, tensor.lanes = 8 * dtype.itemsize, 1
        tensor.shape = ctypes.cast(self.extents, ctypes.POINTER(ctypes.c_int64))
        tensor.strides = ctypes.cast(
            ctypes.byref(self.extents, 8 * rank), ctypes.POINTER(ctypes.c_int64)
        )
        if not self.is_old:
            managed.major = self.changes.get("major", 1)
        for name, value in self.changes.items():
            if hasattr(tensor, name):
                setattr(tensor, name, value)
        new = ctypes.pythonapi.PyCapsule_New
        new.restype = ctypes.py_object
        new.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        self.capsule_name = b"dltensor" if self.is_old else b"dltensor_versioned"
        return new(ctypes.addressof(managed), self.capsule_name, None)


def in_order(imported):
    return np.transpose(imported.array.to_host(), imported.axes)


# From others


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (5,), (2, 3), (2, 1, 4)])
def test_arrays_come_without_a_copy(driver, dtype, shape):
    value = np.random.default_rng(1).integers(0, 2, shape).astype(dtype)
    for take, x in (
        (from_cuda_array_interface, Foreign(value)),
        (from_dlpack, ForeignDlpack(value)),
        (from_dlpack, ForeignDlpack(value, is_old=True)),
    ):
        found = take(x)
        assert found.array.address == x.memory.address
        assert found.array.dtype == value.dtype
        assert found.is_in_order
        np.testing.assert_array_equal(found.array.to_host(), value)


@pytest.mark.parametrize("axes", [(1, 0, 2), (2, 1, 0), (2, 0, 1)])
@pytest.mark.parametrize("shape", [(2, 3, 4), (2, 1, 4), (1, 3, 1)])
def test_transposes_come_without_a_copy(driver, axes, shape):
    base = np.arange(float(np.prod(shape))).reshape(shape)
    value = base.transpose(axes)
    for x in (Foreign(value), ForeignDlpack(value)):
        x.interface["strides"] = value.strides
        take = from_dlpack if isinstance(x, ForeignDlpack) else from_cuda_array_interface
        found = take(x)
        assert found.array.address == x.memory.address
        np.testing.assert_array_equal(in_order(found), value)


def test_no_strides_are_row_major_order(driver):
    value = np.arange(6.0).reshape(2, 3)
    for changes in ({"strides": None}, {"stream": None}, {"version": 2}):
        found = from_cuda_array_interface(Foreign(value, **changes))
        np.testing.assert_array_equal(found.array.to_host(), value)
    x = Foreign(value)
    del x.interface["strides"], x.interface["stream"]
    np.testing.assert_array_equal(from_cuda_array_interface(x).array.to_host(), value)
    found = from_dlpack(ForeignDlpack(value, strides=None))
    np.testing.assert_array_equal(found.array.to_host(), value)


def test_empty_arrays_have_no_address(driver):
    for x in (
        Foreign(np.zeros((2, 0)), data=(0, False)),
        Foreign(np.zeros((2, 0)), data=(77, True)),
    ):
        found = from_cuda_array_interface(x)
        assert (found.array.shape, found.array.address) == ((2, 0), 0)
    found = from_dlpack(ForeignDlpack(np.zeros((0, 3))))
    assert found.array.to_host().shape == (0, 3)


def test_read_only_memory_is_taken(driver):
    x = Foreign(np.arange(3.0))
    x.interface["data"] = (x.memory.address, True)
    np.testing.assert_array_equal(from_cuda_array_interface(x).array.to_host(), np.arange(3.0))


def test_parts_of_arrays_begin_where_they_say(driver):
    x = ForeignDlpack(np.arange(3.0), byte_offset=8)
    x.interface["shape"], x.interface["strides"] = (2,), (8,)
    np.testing.assert_array_equal(from_dlpack(x).array.to_host(), [1.0, 2.0])


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"version": 1}, "version 1 of the protocol"),
        ({"mask": 3}, "a masked array"),
        ({"stream": 0}, "stream 0"),
        ({"stream": "default"}, "stream 'default'"),
        ({"shape": (-1,)}, "negative extents"),
        ({"strides": (8, 8)}, "shape and strides of different length"),
        ({"strides": (-8,)}, "there is no memory of a GPU"),  # before the first element
        ({"strides": (16,), "shape": (2,)}, "repeated or left-out elements"),
        ({"strides": (0,)}, "repeated or left-out elements"),
        ({"shape": (5,), "strides": None}, "run over the end"),
        ({"typestr": "<f4", "strides": (4,), "shape": (8,)}, None),
        ({"data": (12345, False)}, "there is no memory of a GPU"),
        ({"data": None}, "not the dictionary"),
        ({"data": 12345}, "not the dictionary"),
        ({"shape": 3}, "not the dictionary"),
        ({"version": None}, "not the dictionary"),
    ],
)
def test_what_cannot_be_is_refused(driver, changes, problem):
    x = Foreign(np.arange(4.0), **changes)
    if problem is None:
        assert from_cuda_array_interface(x).array.size == 8
        return
    with pytest.raises(ForeignArrayError, match=problem) as caught:
        from_cuda_array_interface(x)
    assert isinstance(caught.value, BufferError)
    assert isinstance(caught.value, DeviceError)


def test_strided_arrays_say_what_to_type(driver):
    x = Foreign(np.arange(4.0), strides=(-8,), shape=(1,))
    x.interface.update(data=(x.memory.address + 24, False), shape=(4,))
    with pytest.raises(ForeignArrayError, match=r"ng\.tensor\(x\); or x\.contiguous\(\)"):
        from_cuda_array_interface(x)


def test_misaligned_elements_are_refused(driver):
    x = Foreign(np.arange(4.0))
    x.interface.update(data=(x.memory.address + 4, False), shape=(2,))
    with pytest.raises(ForeignArrayError, match="8 bytes at an address that is no multiple"):
        from_cuda_array_interface(x)
    x = Foreign(np.arange(4.0))
    x.interface.update(data=(x.memory.address + 8, False), shape=(1,), typestr="<c16", strides=None)
    with pytest.raises(ForeignArrayError, match="16 bytes at an address"):
        from_cuda_array_interface(x)


def test_freed_memory_is_refused(driver):
    x = Foreign(np.arange(4.0))
    x.memory = None
    cuda.synchronize()
    with pytest.raises(ForeignArrayError, match="it was freed, or is the host's"):
        from_cuda_array_interface(x)


@pytest.mark.parametrize(
    "typestr", [">f8", "<M8[s]", "|O", "|S8", "<f16", "|V8", "<U2", "nonsense"]
)
def test_dtypes_that_tensors_do_not_have(driver, typestr):
    with pytest.raises(DTypeError, match="a dtype that tensors do not have"):
        from_cuda_array_interface(Foreign(np.arange(4.0), typestr=typestr))


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"code": 4, "bits": 32}, "code 4"),
        ({"code": 2, "lanes": 4}, "4 lanes"),
        ({"code": 9, "bits": 8}, "code 9"),
        ({"code": 17, "bits": 4}, "4 bits"),
        ({"code": 2, "bits": 128}, "f16"),
    ],
)
def test_codes_of_dtypes_that_tensors_do_not_have(driver, changes, word):
    x = ForeignDlpack(np.arange(4.0), **changes)
    with pytest.raises(DTypeError, match=word):
        from_dlpack(x)
    assert x.deleted == 1


class KnowsHostMemory(HostDriver):
    """Also has pinned and managed memory."""

    def pointer_attributes(self, address):
        for kind, start in (("host", 0x10000), ("managed", 0x20000)):
            if start <= address < start + 4096:
                return PointerAttributes(kind, 1)
        return super().pointer_attributes(address)


def test_pinned_and_managed_memory():
    with installed(KnowsHostMemory()):
        x = Foreign(np.arange(4.0))
        x.interface["data"] = (0x10000, False)
        with pytest.raises(ForeignArrayError, match="memory of the host"):
            from_cuda_array_interface(x)
        x.interface["data"] = (0x20000, False)
        assert from_cuda_array_interface(x).array.device.index == 1
        managed = ForeignDlpack(np.arange(4.0), kind=13)
        assert from_dlpack(managed).array.address == managed.memory.address


def test_what_is_not_on_a_gpu(driver):
    with pytest.raises(ForeignArrayError, match="not memory of a GPU"):
        from_dlpack(np.arange(3.0))


def test_the_device_is_that_of_the_memory(driver):
    x = Foreign(np.arange(4.0), cuda.current_stream(1))
    assert from_cuda_array_interface(x).array.device.index == 1
    y = ForeignDlpack(np.arange(4.0), cuda.current_stream(1))
    assert from_dlpack(y).array.device.index == 1


def test_their_stream_is_waited_for():
    """What they compute on a stream of theirs is there, and nobody waits on the host."""
    for take, kind in ((from_cuda_array_interface, Foreign), (from_dlpack, ForeignDlpack)):
        with installed(HostDriver(late=True)) as driver:
            theirs = cuda.Stream()
            x = kind(np.arange(4.0), theirs)
            with active(0):
                driver.fill(x.memory.address, 0, 8, theirs.handle)
            found = take(x)
            assert not theirs.query()  # not yet done
            np.testing.assert_array_equal(found.array.copy().to_host(), [0.0, 1.0, 2.0, 3.0])


def test_the_stream_that_is_asked_for_is_the_current_one(driver):
    x = ForeignDlpack(np.arange(4.0))
    from_dlpack(x)
    with cuda.stream(cuda.Stream()) as stream:
        from_dlpack(x, copy=False)
    assert x.asked == [
        {"stream": 1, "max_version": (1, 0)},
        {"stream": stream.handle, "max_version": (1, 0), "copy": False},
    ]
    old = ForeignDlpack(np.arange(4.0), is_old=True)
    from_dlpack(old)
    assert old.asked == [{"stream": 1}]


def test_they_may_free_their_memory_when_we_let_it_go():
    """Late streams: what we still read was given back on their stream, which has to wait for us."""
    with installed(HostDriver(late=True)):
        theirs, ours = cuda.Stream(), cuda.Stream()
        x = Foreign(np.arange(4.0), theirs)
        with cuda.stream(ours):
            found = from_cuda_array_interface(x)
            copy = found.array.copy()
            del x, found  # frees on their stream
        theirs.synchronize()
        np.testing.assert_array_equal(copy.to_host(ours), np.arange(4.0))


def test_the_deleter_is_called_once(driver):
    for is_old in (False, True):
        x = ForeignDlpack(np.arange(4.0), is_old=is_old)
        found = from_dlpack(x)
        table = found.array.reshape((2, 2))
        del found
        assert x.deleted == 0
        del table
        assert x.deleted == 1


def test_a_capsule_is_taken_once(driver):
    x = ForeignDlpack(np.arange(4.0))
    capsule = x.__dlpack__(stream=1)
    x.__dlpack__ = None

    class Repeats:
        def __dlpack_device__(self):
            return (2, 0)

        def __dlpack__(self, **arguments):
            return capsule

    found = from_dlpack(Repeats())
    with pytest.raises(ForeignArrayError, match="not a fresh capsule"):
        from_dlpack(Repeats())
    assert x.deleted == 0
    del found
    assert x.deleted == 1


def test_unknown_versions_of_dlpack_are_deleted_unread(driver):
    x = ForeignDlpack(np.arange(4.0), major=2)
    with pytest.raises(ForeignArrayError, match=r"version +: 2\.0"):
        from_dlpack(x)
    assert x.deleted == 1


# To others


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_dictionary_of_the_interface(driver, dtype):
    array = arrays.from_host(np.zeros((2, 3), dtype))
    assert array.__cuda_array_interface__ == {
        "version": 3,
        "shape": (2, 3),
        "typestr": np.dtype(dtype).str,
        "data": (array.address, False),
        "strides": None,
        "stream": 1,
    }


def test_the_stream_of_the_interface_has_all_work_on_the_data():
    with installed(HostDriver(late=True)) as driver:
        with cuda.stream(cuda.Stream()):
            array = arrays.from_host(np.arange(4.0))
        with cuda.stream(cuda.Stream()) as stream:
            interface = array.__cuda_array_interface__
        assert interface["stream"] == stream.handle
        stream.synchronize()
        data = driver.memory(interface["data"][0], 32)
        np.testing.assert_array_equal(data.view(float), np.arange(4.0))
        # What the taker still does on that stream comes before the memory is given back.
        with active(0):
            driver.fill(array.address, 0, 8, stream.handle)
        del array
        stream.synchronize()
        cuda.synchronize()
        assert driver.live_bytes() == 0


def test_empty_arrays_are_exported(driver):
    array = arrays.zeros((0, 3), float)
    assert array.__cuda_array_interface__["data"] == (0, False)
    tensor = read(array.__dlpack__(max_version=(1, 0)))
    assert (tensor.data, list(tensor.shape[:2])) == (None, [0, 3])


def read(capsule, name=b"dltensor_versioned"):
    form = dlpack.ManagedVersioned if name.endswith(b"versioned") else dlpack.Managed
    tensor = form.from_address(dlpack.pointer_of(capsule, name)).tensor
    tensor.capsule = capsule  # whose memory this is
    return tensor


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (1,), (4,), (2, 3, 4)])
def test_what_a_capsule_says(driver, dtype, shape):
    array = arrays.from_host(np.zeros(shape, dtype), "cuda:1")
    assert tuple(array.__dlpack_device__()) == (2, 1)
    for version, name in (
        ((1, 0), b"dltensor_versioned"),
        ((0, 8), b"dltensor"),
        (None, b"dltensor"),
    ):
        tensor = read(array.__dlpack__(max_version=version), name)
        assert (tensor.data, tensor.byte_offset) == (array.address, 0)
        assert (tensor.device_type, tensor.device_id) == (2, 1)
        assert tuple(tensor.shape[: tensor.ndim]) == shape
        assert tensor.bits == 8 * array.dtype.itemsize
        if tensor.strides:
            expected = np.zeros(shape, np.int8).strides  # in elements
            assert tuple(tensor.strides[: tensor.ndim]) == expected or array.size == 1


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (1, 2), (2, 3, 4), (0, 2)])
def test_there_and_back(driver, dtype, shape):
    value = np.random.default_rng(2).integers(0, 2, shape).astype(dtype)
    array = arrays.from_host(value)
    for take in (from_dlpack, from_cuda_array_interface):
        found = take(array)
        assert found.array.address == array.address
        assert found.array.dtype == value.dtype
        np.testing.assert_array_equal(in_order(found), value)
    del array
    np.testing.assert_array_equal(in_order(found), value)
    del found
    cuda.synchronize()
    assert driver.live_bytes() == 0


def test_capsules_that_nobody_takes_give_their_memory_back(driver):
    for version in (None, (1, 0)):
        array = arrays.from_host(np.arange(4.0))
        capsule = array.__dlpack__(max_version=version)
        del array
        assert driver.live_bytes() == 32
        del capsule
        cuda.synchronize()
        assert driver.live_bytes() == 0


@pytest.mark.parametrize("stream", [0, -2, "legacy", True, 1.0])
def test_streams_that_the_protocol_does_not_have(driver, stream):
    array = arrays.from_host(np.arange(4.0))
    with pytest.raises(ForeignArrayError, match="not a stream of this protocol"):
        array.__dlpack__(stream=stream)


def test_their_stream_waits_for_ours():
    for handle in (None, 1, 2, "own"):
        with installed(HostDriver(late=True)) as driver:
            theirs = cuda.Stream()
            handle = theirs.handle if handle == "own" else handle
            with cuda.stream(cuda.Stream()):
                array = arrays.from_host(np.arange(4.0))
            capsule = array.__dlpack__(stream=handle)
            with active(0):
                driver.synchronize_stream(handle or 0)
            data = driver.memory(read(capsule, b"dltensor").data, 32)
            np.testing.assert_array_equal(data.view(float), np.arange(4.0))


def test_no_synchronization_if_they_want_none(driver):
    array = arrays.from_host(np.arange(4.0))
    driver.calls.clear()
    array.__dlpack__(stream=-1)
    assert driver.calls == []
    with installed(HostDriver(late=True)) as late:
        with cuda.stream(cuda.Stream()):
            array = arrays.from_host(np.arange(4.0))
        array.__dlpack__(stream=-1)
        with pytest.raises(Misuse, match="before its stream has come to allocate it"):
            late.memory(array.address)


def test_memory_that_they_let_go_is_kept_while_their_stream_may_use_it():
    for handle in (None, "own"):
        with installed(HostDriver(late=True)) as driver:
            theirs = cuda.Stream()
            array = arrays.from_host(np.arange(4.0))
            capsule = array.__dlpack__(stream=theirs.handle if handle else None)
            target = arrays.empty((4,), float, stream=theirs if handle else None)
            with active(0):  # their kernel
                driver.copy_on_device(
                    target.address, array.address, 32, theirs.handle if handle else 0
                )
            del array, capsule
            other = arrays.zeros((4,), float, stream=cuda.Stream())  # comes by freed memory
            cuda.synchronize()
            np.testing.assert_array_equal(
                target.to_host(theirs if handle else None), np.arange(4.0)
            )
            del other, target
            arrays.zeros((1,), float)
            cuda.synchronize()
            assert driver.live_bytes() == 0


def test_a_takers_stream_may_be_gone_when_the_memory_goes_back(driver):
    theirs = cuda.Stream()
    array = arrays.from_host(np.arange(4.0))
    capsule = array.__dlpack__(stream=theirs.handle)
    del theirs
    del capsule, array
    arrays.zeros((1,), float)
    cuda.synchronize()
    assert driver.live_bytes() == 0


def test_copies_and_other_devices(driver):
    array = arrays.from_host(np.arange(4.0))
    copy = read(array.__dlpack__(copy=True), b"dltensor")
    assert copy.data != array.address
    assert read(array.__dlpack__(dl_device=(2, 0), copy=False), b"dltensor").data == array.address

    class OnTheHost:
        def __dlpack_device__(self):
            return (1, 0)

        def __dlpack__(self, **arguments):
            arguments["dl_device"] = (1, 0)
            arguments["copy"] = None
            return array.__dlpack__(**arguments)

    np.testing.assert_array_equal(np.from_dlpack(OnTheHost()), np.arange(4.0))
    for arguments in ({"dl_device": (1, 0), "copy": False}, {"dl_device": (2, 1)}):
        with pytest.raises(ForeignArrayError, match="not exported to"):
            array.__dlpack__(**arguments)


def test_numpy_and_torch_refuse_memory_of_a_gpu(driver):
    """They are not to crash, and what they did not take is given back."""
    torch = pytest.importorskip("torch")
    array = arrays.from_host(np.arange(4.0))
    with pytest.raises((RuntimeError, BufferError)):
        np.from_dlpack(array)
    if not torch.cuda.is_available():
        with pytest.raises(Exception, match=r"(?i)cuda|device|nvidia"):
            torch.utils.dlpack.from_dlpack(array.__dlpack__())
    del array
    cuda.synchronize()
    assert driver.live_bytes() == 0
