"""An sshd of a test's own on the loopback address: key, port, configuration in its folder; gone with it."""

import os
import pathlib
import shutil
import signal
import socket
import subprocess
import time
import unittest


def find_sshd():
    found = os.environ.get("SEQTO_SSHD") or shutil.which("sshd", path=os.environ["PATH"] + ":/usr/sbin:/usr/local/sbin")
    if not found or not shutil.which("ssh") or not shutil.which("ssh-keygen"):
        raise unittest.SkipTest("no sshd, ssh and ssh-keygen here; Debian's packages openssh-server and openssh-client have them")
    return found


class Sshd:
    """`self.path` goes first on PATH: `ssh` there knows the host, the key and the port, as a user's ~/.ssh/config would."""

    HOST = "board"

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.program = find_sshd()
        for key in ("host", "user"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.folder / key], check=True)
        shutil.copy(self.folder / "user.pub", self.folder / "authorized")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        (self.folder / "sshd_config").write_text(
            f"Port {self.port}\nListenAddress 127.0.0.1\nHostKey {self.folder}/host\nStrictModes no\nUsePAM no\n"
            f"AuthorizedKeysFile {self.folder}/authorized\nPidFile none\nPasswordAuthentication no\n"
            f"PermitRootLogin prohibit-password\nSetEnv XDG_CACHE_HOME={self.folder}/cache\n")
        known = f"[127.0.0.1]:{self.port} {(self.folder / 'host.pub').read_text()}"
        (self.folder / "known_hosts").write_text(known)
        (self.folder / "ssh_config").write_text(
            f"Host {self.HOST}\n  HostName 127.0.0.1\n  Port {self.port}\n  IdentityFile {self.folder}/user\n"
            f"  IdentitiesOnly yes\n  UserKnownHostsFile {self.folder}/known_hosts\n  StrictHostKeyChecking yes\n")
        self.path = self.folder / "bin"
        self.path.mkdir()
        (self.path / "ssh").write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {self.folder}/ssh_config "$@"\n')
        (self.path / "ssh").chmod(0o755)
        self.start()

    def command(self):
        daemon = [self.program, "-D", "-e", "-f", str(self.folder / "sshd_config")]
        if os.getuid() != 0:
            return daemon
        # As root it wants a user and a folder, which the package makes; here both are this process's own.
        users = pathlib.Path("/etc/passwd").read_text()
        if "\nsshd:" not in users:
            users += "sshd:x:64999:65534::/run/sshd:/usr/sbin/nologin\n"
        (self.folder / "passwd").write_text(users)
        script = f'mount --bind {self.folder}/passwd /etc/passwd && mount -t tmpfs none /run && mkdir -m 755 /run/sshd && exec "$@"'
        return ["unshare", "-m", "sh", "-c", script, "sh", *daemon]

    def start(self):
        self.log = open(self.folder / "log", "a")
        self.daemon = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
                                       start_new_session=True)
        for _ in range(100):
            if self.daemon.poll() is not None:
                break
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.05)
        said = (self.folder / "log").read_text()
        self.stop()
        raise unittest.SkipTest(f"sshd does not start here: {said}")

    def connections(self):
        """The processes that serve one each."""
        found = []
        for status in pathlib.Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = status.read_text().rsplit(")", 1)[1].split()
            except (OSError, IndexError):
                continue
            if int(fields[1]) == self.daemon.pid and fields[0] != "Z":
                found.append(int(status.parent.name))
        return found

    def cut(self):
        """Ends every connection, not the daemon; how many there were."""
        cut = self.connections()
        for pid in cut:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        return len(cut)

    def stop(self):
        if self.daemon.poll() is None:
            self.cut()
            self.daemon.kill()
        self.daemon.wait()
        self.log.close()

    def env(self):
        return {"PATH": f"{self.path}:{os.environ['PATH']}"}
