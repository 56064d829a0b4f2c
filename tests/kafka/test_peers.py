"""The Yahoo benchmark between two topics, on a real broker: Penstock's job of the comparison with peers."""

from __future__ import annotations

from pathlib import Path

from bench.peers import answers, inputs, topics
from bench.peers.contender import CONTENDERS
from bench.peers.workloads import WORKLOADS
from penstock.cli.load import load_app


def test_the_yahoo_benchmark_from_topic_to_topic_has_duckdbs_answer(cluster, tmp_path: Path, spark, monkeypatch):
    workload, contender, log = WORKLOADS["yahoo-kafka"], CONTENDERS["penstock"], topics.Log(cluster)
    folder, table = workload.prepared(tmp_path, 2, 1000), inputs.table_of(tmp_path)
    source, target = log.filled(folder, inputs.later_ads(table)), log.new("answer", partitions=1)
    variables = topics.environment(contender, log, source, target, topics.DISORDER) | {"PEERS_TABLE": str(table.parent)}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    answer = topics.Answer(log.servers, target)
    awaited = topics.Awaited(answer, answers.expected(workload, folder, table.parent))
    run = load_app(contender.folder / "yahoo_kafka.py").start(tmp_path / "state", spark=spark, tick=3600.0)
    try:
        run.catch_up()
        for _ in range(600):
            if awaited.is_complete():
                break
    finally:
        run.stop()
        answer.close()
    assert awaited.lack == "nothing is missing"
