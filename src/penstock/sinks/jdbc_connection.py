"""A database behind a Java driver: connections through the JVM of Spark, or one of our own where Spark does not run."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from penstock.errors import PenstockError
from penstock.process_state import RecentlyUsed, process
from penstock.redaction import redact_url, redact_values
from penstock.sinks.base import SinkError

_SECONDS: Final = 60  # how long one statement may take
_MOST_DRIVERS: Final = 32  # how many a process keeps


class Database:
    """One connection, without autocommit: `commit` ends a transaction, `close` gives up one that is open."""

    def __init__(self, url: str, driver: str, jar: str | None, user: str | None, password: str | None) -> None:
        self._url, self._password = url, password
        self._jvm = _gateway().jvm
        try:
            properties = self._jvm.java.util.Properties()
            for name, value in (("user", user), ("password", password)):
                if value is not None:
                    properties.setProperty(name, value)
            self._connection = process.of(Drivers).made((driver, jar), _loaded).connect(url, properties)
            if self._connection is None:
                raise SinkError(f"the driver {driver} does not know such addresses", hint="check url and driver")
            self._connection.setAutoCommit(False)
            quote = self._connection.getMetaData().getIdentifierQuoteString()
            self._quote: str = quote.strip() or '"'
        except PenstockError:
            raise
        except Exception as error:
            raise SinkError(
                f"cannot connect to {redact_url(url)}",
                detail=self._detail(error),
                hint="check that the database runs there, and that driver and jar are the right ones",
            ) from None  # the cause may show the address

    def quoted(self, name: str) -> str:
        return self._quote + name.replace(self._quote, self._quote * 2) + self._quote

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """The rows of a query."""
        prepared = self._prepared(statement)
        try:
            self._bind(prepared, values)
            results = prepared.executeQuery()
            width = results.getMetaData().getColumnCount()
            rows = []
            while results.next():
                rows.append(tuple(results.getObject(number + 1) for number in range(width)))
            return rows
        except Exception as error:
            raise self._refused(error) from None
        finally:
            prepared.close()

    def columns(self, table: str) -> list[str]:
        """The names of a table's columns."""
        prepared = self._prepared(f"SELECT * FROM {table} WHERE 1 = 0")
        try:
            metadata = prepared.executeQuery().getMetaData()
            return [metadata.getColumnLabel(number + 1) for number in range(metadata.getColumnCount())]
        except Exception as error:
            raise self._refused(error) from None
        finally:
            prepared.close()

    def run(self, statement: str, values: Sequence[Any] = ()) -> int:
        """Runs a statement; how many rows it changed."""
        prepared = self._prepared(statement)
        try:
            self._bind(prepared, values)
            return int(prepared.executeUpdate())
        except Exception as error:
            raise self._refused(error) from None
        finally:
            prepared.close()

    def run_many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        """Runs a statement once for each row, in batches of the driver."""
        prepared = self._prepared(statement)
        try:
            for values in rows:
                self._bind(prepared, values)
                prepared.addBatch()
            prepared.executeBatch()
        except Exception as error:
            raise self._refused(error) from None
        finally:
            prepared.close()

    def commit(self) -> None:
        try:
            self._connection.commit()
        except Exception as error:
            raise self._refused(error) from None

    def rollback(self) -> None:
        try:
            self._connection.rollback()
        except Exception as error:
            raise self._refused(error) from None

    def close(self) -> None:
        with suppress(Exception):
            self._connection.rollback()
        with suppress(Exception):
            self._connection.close()

    def _prepared(self, statement: str) -> Any:
        try:
            prepared = self._connection.prepareStatement(statement)
            prepared.setQueryTimeout(_SECONDS)
            return prepared
        except Exception as error:
            raise self._refused(error) from None

    def _bind(self, prepared: Any, values: Sequence[Any]) -> None:
        for number, value in enumerate(values, 1):
            if value is None:
                prepared.setObject(number, None)
            elif isinstance(value, bool):
                prepared.setBoolean(number, value)
            elif isinstance(value, int):
                prepared.setLong(number, value)
            elif isinstance(value, float):
                prepared.setDouble(number, value)
            elif isinstance(value, Decimal):
                prepared.setBigDecimal(number, self._jvm.java.math.BigDecimal(format(value, "f")))
            elif isinstance(value, bytes):
                prepared.setBytes(number, value)
            elif isinstance(value, datetime):
                prepared.setObject(number, self._jvm.java.time.OffsetDateTime.parse(value.isoformat()))
            elif isinstance(value, date):
                prepared.setObject(number, self._jvm.java.time.LocalDate.parse(value.isoformat()))
            else:
                prepared.setString(number, value)

    def _refused(self, error: Exception) -> SinkError:
        return SinkError(f"the database: {self._detail(error)}")

    def _detail(self, error: Exception) -> str:
        """The driver's message, without passwords and without Java's stack."""
        java = getattr(error, "java_exception", None)
        text = str(java.getMessage() if java is not None else error)
        text = redact_values(text, [self._password or ""])
        return redact_url(" ".join(text.split()))[:600]


class Drivers(RecentlyUsed[tuple[str, str | None], Any]):
    """The drivers that the JVM has loaded, by the names of their classes and their jars."""

    def __init__(self) -> None:
        super().__init__(_MOST_DRIVERS)


class OwnGateway:
    """A JVM of our own, for a process in which Spark does not run."""

    def __init__(self) -> None:
        import pyspark
        from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

        (jar,) = (Path(pyspark.__file__).parent / "jars").glob("py4j-*.jar")
        port, token = launch_gateway(jarpath=str(jar), die_on_exit=True, enable_auth=True, java_path=None)
        self.gateway: Any = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token))


def _loaded(driver: tuple[str, str | None]) -> Any:
    """A driver, from a jar of its own or from those that the JVM has."""
    name, jar = driver
    gateway = _gateway()
    jvm = gateway.jvm
    if jar is not None and not Path(jar).is_file():
        raise SinkError(f"there is no jar '{jar}'", hint="give the path of the driver's jar")
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    if jar is not None:
        urls = gateway.new_array(jvm.java.net.URL, 1)
        urls[0] = jvm.java.io.File(jar).toURI().toURL()
        loader = jvm.java.net.URLClassLoader(urls, loader)
    try:
        kind = loader.loadClass(name)
    except Exception:
        raise SinkError(f"there is no Java class {name}", hint="give the driver's jar: jar='driver.jar'") from None
    none = gateway.new_array(jvm.java.lang.Class, 0)
    return kind.getDeclaredConstructor(none).newInstance(gateway.new_array(jvm.java.lang.Object, 0))


def _gateway() -> Any:
    """Spark's, if it runs in this process."""
    try:
        from pyspark import SparkContext
    except ImportError:
        raise PenstockError("sinks by JDBC need PySpark", hint="pip install 'penstock[spark]'") from None
    return SparkContext._gateway or process.of(OwnGateway).gateway
