"""A search's candidates measured by GNU parallel, and by a Slurm array in a namespace of its own, as the guide has them."""

import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
sys.path.insert(0, str(pathlib.Path(__file__).parent))
from ask_test import BINARY, STUDY, lines, seqto, study  # noqa: E402
from testing import models, unit  # noqa: E402

PARALLEL = """
while "$SEQTO" ask "$DIR" -q > "$DIR/step.jsonl" && [ -s "$DIR/step.jsonl" ]; do
  parallel -j2 --will-cite "$SEQTO" eval "$DIR" {} -q < "$DIR/step.jsonl" | "$SEQTO" tell "$DIR" - -q
done
"""
SEARCH = """#!/bin/sh
while "$SEQTO" ask "$1" -q > "$1/step.jsonl" && [ -s "$1/step.jsonl" ]; do
  count=$(wc -l < "$1/step.jsonl")
  sbatch --wait --array="1-$count" -c1 -o "$1/task-%a.out" --wrap "sed -n \\${SLURM_ARRAY_TASK_ID}p $1/step.jsonl |
    $SEQTO eval $1 - -q | grep number | $SEQTO tell $1 - -q" || exit 1
done
"""
CONF = """
ClusterName=one
SlurmctldHost={host}({address})
SlurmctldPort=16817
SlurmdPort=16818
SlurmUser=root
StateSaveLocation={dir}/state
SlurmdSpoolDir={dir}/spool
SlurmctldPidFile={dir}/slurmctld.pid
SlurmdPidFile={dir}/slurmd.pid
SlurmctldLogFile={dir}/slurmctld.log
SlurmdLogFile={dir}/slurmd.log
AuthType=auth/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
MpiDefault=none
NodeName=vm NodeHostname={host} NodeAddr={address} CPUs=2 State=UNKNOWN
PartitionName=all Nodes=vm Default=YES MaxTime=INFINITE State=UP
"""
# In a network and process namespace: what it starts hears nobody, and ends with it.
CLUSTER = """
set -e
ip link set lo up
ip addr add {address}/32 dev lo
mkdir -p /run/munge {dir}/state {dir}/spool
chown munge /run/munge
rm -f /run/munge/munge.socket.2
su -s /bin/sh munge -c 'munged --socket=/run/munge/munge.socket.2 --force' || munged --force
export SLURM_CONF={dir}/slurm.conf
slurmctld -f $SLURM_CONF
slurmd -f $SLURM_CONF -N vm
for i in $(seq 100); do sinfo -h -o %t | grep -q idle && break; sleep 0.1; done
sh {dir}/search.sh {out}
"""


class Engines(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = pathlib.Path(tempfile.mkdtemp(prefix="seqto-engines-"))
        cls.addClassCleanup(shutil.rmtree, cls.dir)
        cls.local = cls.dir / "local"
        seqto(*STUDY, "-o", cls.local)

    def begin(self, name):
        out = self.dir / name
        seqto(*STUDY, "-o", out, "--begin")
        return out

    def finish(self, out):
        self.assertEqual(lines(seqto("ask", out, "-q")), [])
        seqto("tune", "--config", out / "tune.toml", "-q")
        ours, theirs = ([e for e in study(folder) if "trial" in e] for folder in (out, self.local))
        self.assertEqual(ours, theirs)

    def test_gnu_parallel(self):
        if not shutil.which("parallel"):
            self.skipTest("GNU parallel is not installed")
        out = self.begin("parallel")
        subprocess.run(["sh", "-c", PARALLEL], check=True, timeout=500, env={**os.environ, "SEQTO": BINARY, "DIR": str(out)})
        self.finish(out)

    def test_slurm_array(self):
        missing = [tool for tool in ("sbatch", "slurmctld", "slurmd", "munged", "unshare", "ip") if not shutil.which(tool)]
        if missing or os.geteuid() != 0:
            self.skipTest(f"needs root, and {missing}")
        out = self.begin("slurm")
        names = {"dir": self.dir, "address": "10.99.0.1", "host": socket.gethostname(), "out": out}
        (self.dir / "slurm.conf").write_text(CONF.format(**names))
        (self.dir / "search.sh").write_text(SEARCH)
        done = subprocess.run(["unshare", "-n", "-p", "-f", "--mount-proc", "--kill-child", "sh", "-c", CLUSTER.format(**names)],
                              capture_output=True, text=True, timeout=500, env={**os.environ, "SEQTO": BINARY})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.finish(out)


if __name__ == "__main__":
    unit.main()
