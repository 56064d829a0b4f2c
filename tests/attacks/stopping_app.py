"""An app that stops its own executor when a pipe is opened, as a stranger's message would have done."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import penstock as ps

app = ps.App("attacked")
posts = app.stream("posts", ps.http("posts"), schema="tag string")
app.view("totals", posts.group_by("tag").agg(n=ps.count()))


def stop_executor(sign: Path) -> None:
    sign.read_bytes()  # a pipe: until someone opens it
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    assert context is not None
    backend = context._jsc.sc().schedulerBackend()
    (field,) = (one for one in backend.getClass().getDeclaredFields() if one.getName() == "localEndpoint")
    field.setAccessible(True)
    jvm = context._jvm
    assert jvm is not None
    message = getattr(getattr(jvm.org.apache.spark.scheduler.local, "StopExecutor$"), "MODULE$")
    field.get(backend).askSync(message, jvm.scala.reflect.ClassTag.apply(jvm.java.lang.Object().getClass()))


if "PENSTOCK_TEST_SIGN" in os.environ:
    threading.Thread(target=stop_executor, args=(Path(os.environ["PENSTOCK_TEST_SIGN"]),), daemon=True).start()
