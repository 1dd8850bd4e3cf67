"""Files of the mirror for pyiceberg, through this library's own store."""

from __future__ import annotations

import io
import uuid

from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile, OutputStream
from pyiceberg.table.metadata import TableMetadata

from table_writer.errors import StorageError
from table_writer.model.location import Location
from table_writer.storage.object_store import ObjectStore


class StoreFiles(FileIO):
    """The files of one bucket: a whole object is one request."""

    def __init__(self, store: ObjectStore, root: Location) -> None:
        super().__init__({})
        self._store = store
        self._root = root

    def key_of(self, location: str) -> str:
        """Return the key of a file; refuses one in another bucket."""
        file = Location.parse(location)
        if file.place[:2] != self._root.place[:2]:
            raise StorageError(f"{location} is in another bucket than {self._root}: no part of a mirror")
        return file.key.rstrip("/")

    def location_of(self, key: str) -> str:
        """Return the full path of a key."""
        return str(self._root.beside(key))

    def read(self, location: str) -> bytes:
        """Read a whole file."""
        found = self._store.get(self.key_of(location))
        if found is None:
            raise FileNotFoundError(f"{location} is not there")
        return found.body

    def write(self, location: str, body: bytes) -> None:
        """Write a whole file."""
        self._store.put(self.key_of(location), body)

    def new_input(self, location: str) -> InputFile:
        """Return a file to read."""
        return _StoredFile(self, location)

    def new_output(self, location: str) -> OutputFile:
        """Return a file to write."""
        return _NewFile(self, location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Refuse: files of a mirror go with a vacuum, or with the mirror."""
        raise StorageError(f"pyiceberg was about to delete {location}: nothing was deleted")


class MetadataFiles:
    """The metadata of one table, a file for each of its states."""

    def __init__(self, files: StoreFiles, prefix: str) -> None:
        self._files = files
        self._prefix = prefix

    def write(self, metadata: TableMetadata, *, number: int) -> str:
        """Write metadata under a name of its own; returns its location."""
        location = self._files.location_of(f"{self._prefix}{number:05d}-{uuid.uuid4()}.metadata.json")
        self._files.write(location, metadata.model_dump_json(exclude_none=True).encode())
        return location

    def number_of(self, location: str) -> int:
        """Return how many metadata files came before one."""
        number = location.rpartition("/")[2].partition("-")[0]
        return int(number) if number.isdecimal() else 0


class _StoredFile(InputFile):
    def __init__(self, files: StoreFiles, location: str) -> None:
        super().__init__(location)
        self._files = files

    def __len__(self) -> int:
        return len(self._files.read(self.location))

    def exists(self) -> bool:
        try:
            self._files.read(self.location)
        except FileNotFoundError:
            return False
        return True

    def open(self, seekable: bool = True) -> InputStream:  # noqa: ARG002, FBT001, FBT002  # pyiceberg's signature
        return io.BytesIO(self._files.read(self.location))


class _NewFile(OutputFile):
    def __init__(self, files: StoreFiles, location: str) -> None:
        super().__init__(location)
        self._files = files
        self.size_bytes = 0

    def __len__(self) -> int:
        return self.size_bytes

    def exists(self) -> bool:
        return False  # names are unique

    def to_input_file(self) -> InputFile:
        return _StoredFile(self._files, self.location)

    def create(self, overwrite: bool = False) -> OutputStream:  # noqa: ARG002, FBT001, FBT002  # pyiceberg's signature
        return _Body(self._files, self)


class _Body(io.BytesIO):
    """What is written of a file: sent when it is closed."""

    def __init__(self, files: StoreFiles, file: _NewFile) -> None:
        super().__init__()
        self._files = files
        self._file = file

    def __exit__(self, *error: object) -> None:
        if error[0] is None:
            self.close()

    def close(self) -> None:
        if not self.closed:
            body = self.getvalue()
            self._file.size_bytes = len(body)
            self._files.write(self._file.location, body)
        super().close()
