"""A real KDC on a free port of 127.0.0.1: MIT's, from Debian's packages, which are unpacked without root.

``python -m tests.metastore.kdc`` fetches the packages, as the fixtures do at their first use.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from pathlib import Path
from typing import Final

from table_writer.testing.processes import LOCALHOST, ServerProcess

PACKAGES: Final = (
    *("krb5-kdc", "krb5-admin-server", "krb5-user", "libgssrpc4", "libkdb5-10", "libkadm5srv-mit12"),
    *("libkadm5clnt-mit12", "libgssapi-krb5-2", "libkrb5-3", "libkrb5support0", "libk5crypto3", "libkeyutils1"),
    *("libcom-err2", "libss2", "libverto1", "libverto-libev1", "libev4", "libfaketime"),
)
CACHE_VARIABLE: Final = "TABLE_WRITER_KDC_DIR"
REALM: Final = "LAKE.TEST"
USER: Final = f"etl@{REALM}"
SERVICE: Final = f"metastore/localhost@{REALM}"
OTHER_SERVICE: Final = f"other/localhost@{REALM}"  # known to the KDC, not to the metastore
KRB5_CONF: Final = """\
[libdefaults]
  default_realm = {realm}
  dns_lookup_kdc = false
  dns_lookup_realm = false
  rdns = false
  dns_canonicalize_hostname = false
  udp_preference_limit = 1
  kdc_timesync = 0
[realms]
  {realm} = {{
    kdc = {host}:{port}
  }}
"""
KDC_CONF: Final = """\
[kdcdefaults]
  kdc_listen = {host}:{port}
  kdc_tcp_listen = {host}:{port}
[realms]
  {realm} = {{
    database_name = {directory}/principal
    key_stash_file = {directory}/stash
    supported_enctypes = aes256-cts:normal aes128-cts:normal
  }}
[dbmodules]
  db_module_dir = {library}/krb5/plugins/kdb
"""


def fetched_packages() -> Path:
    """Return where the packages are unpacked; what cannot be fetched is an error."""
    cache = Path(os.environ.get(CACHE_VARIABLE) or Path("~/.cache/table_writer/kdc").expanduser())
    done = cache / "unpacked"
    if not done.is_dir():
        work = cache / f"work-{os.getpid()}"
        work.mkdir(parents=True)
        own = ("-o", f"Dir::State={work}", "-o", f"Dir::Cache={work}")  # a machine may know no packages yet
        subprocess.run(["apt-get", *own, "--quiet", "update"], cwd=work, check=True, timeout=300)
        subprocess.run(["apt-get", *own, "--quiet", "download", *PACKAGES], cwd=work, check=True, timeout=300)
        for package in work.glob("*.deb"):
            subprocess.run(["dpkg-deb", "-x", str(package), str(work / "root")], check=True)
        if not done.is_dir():
            (work / "root").rename(done)
        shutil.rmtree(work)
    return done


class Kdc(ServerProcess):
    """Knows a user and two services; their keytabs lie in its directory."""

    START_TIMEOUT_SECONDS = 60

    def __init__(self) -> None:
        super().__init__("KDC")
        self._packages = fetched_packages()
        self._library = next((self._packages / "usr" / "lib").glob("*-linux-gnu"))

    @property
    def directory(self) -> Path:
        return self._scratch[0].path

    @property
    def configuration(self) -> Path:
        """What clients read, by ``KRB5_CONFIG`` or ``java.security.krb5.conf``."""
        return self.directory / "krb5.conf"

    def keytab(self, principal: str) -> Path:
        return self.directory / f"{principal.partition('/')[0].partition('@')[0]}.keytab"

    @property
    def java_options(self) -> tuple[str, ...]:
        exported = "--add-exports=java.security.jgss/sun.security.krb5=ALL-UNNAMED"
        return f"-Djava.security.krb5.conf={self.configuration}", exported

    @property
    def faketime(self) -> Path:
        """What ``LD_PRELOAD`` takes to set a process's clock."""
        return self._library / "faketime" / "libfaketime.so.1"

    def kinit(self, cache: Path, *options: str) -> None:
        """Get a ticket into a file."""
        keytab = ["-k", "-t", str(self.keytab(USER)), "-c", f"FILE:{cache}"]
        self._run("bin/kinit", *keytab, *options, USER)

    def _command(self, directory: Path) -> tuple[list[str], dict[str, str]]:
        where = {"host": LOCALHOST, "port": self.port, "directory": directory, "library": self._library}
        values = {"realm": REALM, **where}
        (directory / "krb5.conf").write_text(KRB5_CONF.format(**values))
        (directory / "kdc.conf").write_text(KDC_CONF.format(**values))
        if not (directory / "principal").exists():
            self._run("sbin/kdb5_util", "-r", REALM, "create", "-s", "-P", "a master key")
            for principal in (USER, SERVICE, OTHER_SERVICE):
                self.admin(f"addprinc -randkey {principal}")
                self.admin(f"ktadd -k {self.keytab(principal)} {principal}")
        return [str(self._packages / "usr/sbin/krb5kdc"), "-n", "-r", REALM], self._environment()

    def admin(self, query: str) -> None:
        """Change the database."""
        self._run("sbin/kadmin.local", "-r", REALM, "-q", query)

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._packages / "usr" / program), *arguments]
        subprocess.run(command, env=self._environment(), check=True, capture_output=True, timeout=60)

    def _environment(self) -> dict[str, str]:
        libraries = (self._library, self._library / "krb5", self._packages / "lib" / self._library.name)
        return {
            **os.environ,
            "LD_LIBRARY_PATH": os.pathsep.join(map(str, libraries)),
            "KRB5_CONFIG": str(self.directory / "krb5.conf"),
            "KRB5_KDC_PROFILE": str(self.directory / "kdc.conf"),
        }

    def _answers(self) -> bool:
        try:
            socket.create_connection((LOCALHOST, self.port), timeout=5).close()
        except OSError:
            return False
        return True


if __name__ == "__main__":
    print(fetched_packages())
