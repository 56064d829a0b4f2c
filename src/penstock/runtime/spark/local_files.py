"""Local files without processes: Hadoop starts a `chmod` for each file that it makes, if its native library is missing.

Spark makes two small files in each epoch. Four processes an epoch took longer than the files. Here Java itself sets the
modes. Spark brings the compiler of the few lines of Java below; it compiles Spark's own code with it.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark import SparkContext

_log = logging.getLogger("penstock.runtime")
_CLASS: Final = "penstock.LocalFiles"
_SOURCE: Final = """
package penstock;

import java.lang.reflect.Method;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermissions;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

public class LocalFiles extends LocalFileSystem {
    public static class Raw extends RawLocalFileSystem {
        public void setPermission(Path path, FsPermission mode) throws java.io.IOException {
            if (mode.getStickyBit()) {
                super.setPermission(path, mode);
                return;
            }
            String text = mode.getUserAction().SYMBOL + mode.getGroupAction().SYMBOL + mode.getOtherAction().SYMBOL;
            Files.setPosixFilePermissions(pathToFile(path).toPath(), PosixFilePermissions.fromString(text));
        }
    }

    public LocalFiles() {
        super(new Raw());
    }

    public static void install(Configuration conf) throws Exception {
        URI uri = URI.create("file:///");
        LocalFiles files = new LocalFiles();
        files.initialize(uri, conf);
        Class[] kinds = new Class[] {URI.class, Configuration.class, FileSystem.class};
        Method add = FileSystem.class.getDeclaredMethod("addFileSystemForTesting", kinds);
        add.setAccessible(true);
        add.invoke(null, new Object[] {uri, conf, files});
    }
}
"""


def spare_processes(context: SparkContext) -> threading.Thread:
    """Lets Java make local files without processes from soon on. The thread that sees to it."""
    thread = threading.Thread(target=_install, args=(context,), name="penstock-local-files", daemon=True)
    thread.start()
    return thread


def _install(context: SparkContext) -> None:
    try:
        java: Any = context
        jvm, new_array = java._jvm, java._gateway.new_array
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(
            jvm.org.apache.hadoop.fs.FileSystem.getLocal(_conf(context)).getClass().getClassLoader()
        )
        compiler.cook(_SOURCE)
        kinds, values = new_array(jvm.java.lang.Class, 1), new_array(jvm.java.lang.Object, 1)
        kinds[0], values[0] = _conf(context).getClass(), _conf(context)
        compiler.getClassLoader().loadClass(_CLASS).getMethod("install", kinds).invoke(None, values)
    except Exception as error:  # it works without, only slower
        _log.debug("local files are made by processes: %s", error)


def _conf(context: SparkContext) -> Any:
    java: Any = context
    return java._jsc.hadoopConfiguration()
