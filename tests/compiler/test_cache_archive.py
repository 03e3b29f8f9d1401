"""Kernels in one file: what goes in and out, and archives that were made to do harm."""

import json
import os
import zipfile

import pytest

from numba_grad.compiler import cache_archive
from numba_grad.compiler.building import cache
from numba_grad.compiler.cuda import build as cuda_build
from numba_grad.config import configure
from numba_grad.errors import ArchiveError, KernelError

pytestmark = pytest.mark.usefixtures("directory")

CODE = b"object code" * 50


@pytest.fixture
def keys():
    found = [cache.key_of(f"kernel {k}") for k in range(3)]
    for key in found:
        cache.write(key, CODE + key.encode())
    return found


@pytest.fixture
def archive(tmp_path, keys):
    cache_archive.export_to(tmp_path / "kernels.zip")
    return tmp_path / "kernels.zip"


def members(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def kernels():
    """Those for this machine: LLVM's word on its processor is stored, too."""
    own = cache.key_of("")[: cache._DIGITS_OF_ENVIRONMENT]
    return {key for key in cache.stored_keys() if key.startswith(own)}


def write(path, contents, **how):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in contents.items():
            archive.writestr(name, content, **how)


def with_environment(path, kind, **changes):
    """The same archive, as if it came from another kind of machine."""
    contents = members(path)
    manifest = json.loads(contents["manifest.json"])
    manifest["environments"][kind] |= changes
    prefix = cache.prefix_of(cache.identity_of(manifest["environments"][kind]))
    write(
        path,
        {
            name if name == "manifest.json" else prefix + name[len(prefix) :]: content
            for name, content in contents.items()
        }
        | {"manifest.json": json.dumps(manifest)},
    )


def test_what_is_exported_is_imported(tmp_path, keys, archive):
    with configure(cache_directory=tmp_path / "other"):
        cache.write(keys[0], CODE + keys[0].encode())
        done = cache_archive.import_from(archive)
        assert (done.new, done.known, done.left_out) == (2, 1, "")
        assert kernels() == set(keys)
        for key in keys:
            assert cache.read(key) == CODE + key.encode()
            if os.name == "posix":
                assert cache.path_of(key).stat().st_mode & 0o077 == 0


def test_a_damaged_file_of_the_cache_is_replaced(keys, archive):
    cache.path_of(keys[1]).write_bytes(b"damaged")
    assert cache_archive.import_from(archive).new == 1
    assert cache.read(keys[1]) == CODE + keys[1].encode()


def test_an_archive_has_what_is_for_this_machine_and_whole(tmp_path, keys):
    other = cache.key_in(b"another machine", "kernel")
    cache.write(other, CODE)
    cache.path_of(keys[0]).write_bytes(b"damaged")
    done = cache_archive.export_to(tmp_path / "kernels.zip")
    assert done.kernels == 2
    assert done.bytes == (tmp_path / "kernels.zip").stat().st_size
    names = set(members(tmp_path / "kernels.zip"))
    assert names == {"manifest.json", *(f"{key}.object" for key in keys[1:])}


def test_the_same_kernels_give_the_same_bytes(tmp_path, archive):
    cache_archive.export_to(tmp_path / "again.zip")
    assert (tmp_path / "again.zip").read_bytes() == archive.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["again.zip", "cache", "kernels.zip"]


def test_an_empty_cache_is_not_exported(tmp_path):
    with pytest.raises(ArchiveError, match="no kernels of this machine"):
        cache_archive.export_to(tmp_path / "kernels.zip")
    assert not list(tmp_path.glob("kernels*"))


def test_kernels_of_gpus_go_along_where_there_is_a_compiler(tmp_path, keys, monkeypatch):
    monkeypatch.setattr(cuda_build, "environment", lambda: {"CUDA compiler": "one 1.0"})
    identity = cache.identity_of({"CUDA compiler": "one 1.0"})
    key = cache.key_in(identity, "kernel", "sm_90")
    cache.write(key, CODE)
    path = tmp_path / "kernels.zip"
    assert cache_archive.export_to(path).kernels == 4
    cache.clear()
    assert cache_archive.import_from(path).new == 4
    cache.clear()

    def missing():
        raise KernelError("no compiler")

    monkeypatch.setattr(cuda_build, "environment", missing)
    done = cache_archive.import_from(path)
    assert done.new == 3
    assert not cache.contains(key)
    assert "1 of 4 kernels are not for this machine" in done.left_out
    assert "CUDA" in done.left_out


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("processor", "i486", "CPU, processor : 'i486' in the archive, "),
        ("Numba", "0.60.0", "CPU, Numba : '0.60.0' in the archive, '0."),
        ("features", "+sse2,+amx-of-tomorrow,-avx", "'amx-of-tomorrow' in the archive, "),
    ],
)
def test_kernels_of_another_kind_of_machine_are_refused(archive, name, value, message):
    with_environment(archive, "CPU", **{name: value})
    cache.clear()
    with pytest.raises(ArchiveError, match="are for this machine and these versions") as caught:
        cache_archive.import_from(archive)
    assert message in str(caught.value)
    assert not kernels()


KEY = "ab" * 32
MANY = b"\0" * (80 << 20)


@pytest.mark.thorough(but=r"^(?!large-|lie)")
@pytest.mark.parametrize(
    ("harm", "message"),
    [
        ("path", "is no name of a kernel"),
        ("absolute path", "is no name of a kernel"),
        ("other file", "is no name of a kernel"),
        ("checksum", "the checksum of .* is wrong"),
        ("other kernel", "the checksum of .* is wrong"),
        ("large", "83886080 bytes in"),
        ("lie", "damaged"),
        ("lzma", "compressed in another way"),
        ("large manifest", "bytes in manifest.json"),
        ("no manifest", "no manifest that can be read"),
        ("deep manifest", "no manifest that can be read"),
        ("manifest of bytes", "no manifest that can be read"),
        ("other format", "not of the format"),
        ("manifest of numbers", "not of the format"),
        ("escapes", "not of the format"),
        ("truncated", "damaged"),
        ("flipped", "damaged"),
    ],
)
def test_archives_that_do_harm_are_refused(tmp_path, directory, keys, archive, harm, message):
    contents = members(archive)
    first, manifest = f"{keys[0]}.object", json.loads(contents["manifest.json"])
    how = {}
    if harm == "path":
        contents["../" + first] = contents[first]
    elif harm == "absolute path":
        contents[f"{tmp_path}/{first}"] = contents[first]
    elif harm == "other file":
        contents["startup.pth"] = b"import os"
    elif harm == "checksum":
        contents[first] = contents[first][:-1] + b"?"
    elif harm == "other kernel":
        contents[first] = contents[f"{keys[1]}.object"]
    elif harm == "large":
        contents[first] = MANY
    elif harm == "lzma":
        how = {"compress_type": zipfile.ZIP_LZMA}
    elif harm == "large manifest":
        contents["manifest.json"] = MANY[: 2 << 20]
    elif harm == "no manifest":
        del contents["manifest.json"]
    elif harm == "deep manifest":
        contents["manifest.json"] = b"[" * 200_000
    elif harm == "manifest of bytes":
        contents["manifest.json"] = b"\xff\xfe\xfd"
    elif harm == "other format":
        contents["manifest.json"] = b'{"format": "another"}'
    elif harm == "manifest of numbers":
        contents["manifest.json"] = json.dumps(manifest | {"environments": {"CPU": 3}})
    elif harm == "escapes":
        manifest["environments"]["\33[2J"] = {}
        contents["manifest.json"] = json.dumps(manifest)
    write(archive, contents, **how)
    data = archive.read_bytes()
    if harm == "truncated":
        archive.write_bytes(data[: len(data) // 2])
    elif harm == "flipped":
        archive.write_bytes(data[:300] + bytes([data[300] ^ 255]) + data[301:])
    elif harm == "lie":  # the directory says 16 bytes, and there are many
        write(archive, contents | {first: MANY})
        size = len(MANY).to_bytes(4, "little")
        archive.write_bytes(archive.read_bytes().replace(size, (16).to_bytes(4, "little")))
    cache.clear()
    before = {path for path in tmp_path.rglob("*") if path.parent != directory}
    with pytest.raises(ArchiveError, match=message) as caught:
        cache_archive.import_from(archive)
    assert "\33" not in str(caught.value)
    assert not kernels()
    assert {path for path in tmp_path.rglob("*") if path.parent != directory} == before


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_one_kernel_twice_is_refused(archive, keys):
    with zipfile.ZipFile(archive, "a") as added:
        added.writestr(f"{keys[0]}.object", b"another")
    with pytest.raises(ArchiveError, match="two kernels are called"):
        cache_archive.import_from(archive)


def test_more_than_the_cache_holds_is_refused(archive):
    with (
        configure(cache_bytes=1000),
        pytest.raises(ArchiveError, match="more than the cache holds"),
    ):
        cache_archive.import_from(archive)


@pytest.mark.skipif(os.name != "posix", reason="POSIX permissions")
def test_nothing_is_imported_where_others_can_write(directory, archive, monkeypatch):
    monkeypatch.setattr(cache, "_warned", {directory})
    directory.chmod(0o770)
    with pytest.raises(ArchiveError, match="cannot be used"):
        cache_archive.import_from(archive)
