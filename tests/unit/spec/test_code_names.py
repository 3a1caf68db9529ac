"""The names by which code is loaded, compared with the Spark that is installed here: what a new version adds is seen."""

from __future__ import annotations

import re
import struct
import zipfile
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import pyspark
import pytest

from supervisor.spec.code_names import (
    PLAIN_VARIABLES,
    code_options,
    is_code_property,
    is_code_variable,
    is_secret_file_property,
    variable_of_property,
)

SPARK = Path(pyspark.__file__).parent
PROPERTY = re.compile(r"spark\.[a-zA-Z][\w.-]*")

NAMES_A_FILE = re.compile(
    r"(?i)script|command|image|template|jar|archive|uri$|library|classpath|ivy|package|repositor|pyfile|\.files$"
    r"|env\.|javaoptions|\.python$|module|repl\.|gatewaypath|replacementpath|keytab|credential.*path|\.exec$|binary"
)
"""What in a name says that its value may be a file with code, or the place of one."""

LOADS_NOTHING = (
    "spark.sql.*",  # SQL's own words: scripting, commands, files of data; those that name code are named by their own rule
    "*javaoptions",  # each option is judged
    "spark.app.initial.*",  # written by Spark itself
    "spark.jars.excludes",
    "spark.connect.extensions.command.classes",  # a class
    "spark.repl.local.jars.*",
    "spark.kubernetes.*image.pull*",
    "spark.kubernetes.*templatecontainername",
    "spark.kubernetes.jars.avoiddownloadschemes",
    "spark.storage.*",
    "spark.ui.proxyredirecturi",
    "spark.worker.*",
    "spark.*userclasspathfirst",  # a switch
    "spark.yarn.user.classpath.first",
    "spark.yarn.populatehadoopclasspath",
    "spark.yarn.preserve.staging.files",
    "spark.submit.proxyuser.*",
    "spark.job.description",
    "spark.deploy.*",
    "spark.history.*",
    "spark.master.*",
    "spark.log.*",
    "spark.hadoop.mapred.output.compression.*",
    "spark.hadoop.*clonejar*",
)


def strings_of(data: bytes) -> Iterator[str]:
    """Yields the strings in the constant pool of a class file (JVM specification, 4.4)."""
    count, at, index = struct.unpack(">H", data[8:10])[0], 10, 1
    sizes = {
        3: 5,
        4: 5,
        9: 5,
        10: 5,
        11: 5,
        12: 5,
        17: 5,
        18: 5,
        5: 9,
        6: 9,
        7: 3,
        8: 3,
        16: 3,
        19: 3,
        20: 3,
        15: 4,
    }
    while index < count:
        tag = data[at]
        if tag == 1:
            length = struct.unpack(">H", data[at + 1 : at + 3])[0]
            yield data[at + 3 : at + 3 + length].decode("utf-8", "replace")
            at += 3 + length
        else:
            at += sizes[tag]
        index += 2 if tag in (5, 6) else 1


@pytest.fixture(scope="module")
def properties() -> frozenset[str]:
    found = set()
    for jar in (SPARK / "jars").glob("spark-*.jar"):
        with zipfile.ZipFile(jar) as archive:
            for name in archive.namelist():
                if name.endswith(".class"):
                    found.update(each for each in strings_of(archive.read(name)) if PROPERTY.fullmatch(each))
    assert len(found) > 1000
    return frozenset(found)


def is_judged(name: str) -> bool:
    return is_code_property(name) or is_secret_file_property(name) or variable_of_property(name) is not None


def test_each_property_of_the_installed_spark_that_names_a_file_is_judged_or_known_to_load_nothing(
    properties: frozenset[str],
) -> None:
    unknown = [
        name
        for name in sorted(properties)
        if NAMES_A_FILE.search(name)
        and not is_judged(name)
        and not any(fnmatchcase(name.lower(), pattern) for pattern in LOADS_NOTHING)
    ]
    assert unknown == [], "add each to supervisor/spec/code_names.py, or to LOADS_NOTHING with the reason"


def test_each_environment_variable_that_sparks_scripts_and_pyspark_read_is_judged() -> None:
    read = set()
    for script in ("spark-submit", "spark-class", "load-spark-env.sh", "find-spark-home"):
        read.update(re.findall(r"\$\{?([A-Z_][A-Z0-9_]{2,})", (SPARK / "bin" / script).read_text()))
    for module in SPARK.rglob("*.py"):
        if "tests" not in module.parts and "testing" not in module.parts:
            text = module.read_text()
            read.update(re.findall(r"""environ(?:\.get\(|\.pop\(|\[)\s*["'](\w+)["']""", text))
    assert len(read) > 40
    unknown = sorted(name for name in read if not is_code_variable(name) and name not in PLAIN_VARIABLES)
    assert [name for name in unknown if name not in READ_AND_PLAIN] == []


READ_AND_PLAIN = {
    *(
        "ARG",
        "_ARG",
        "CMD",
        "CMD_START_FLAG",
        "DELIM",
        "LAST",
        "LAUNCHER_EXIT_CODE",
        "LAUNCH_CLASSPATH",
        "RUNNER",
    ),
    *("ASSEMBLY_DIR_1", "ASSEMBLY_DIR_2", "ENV_VARIABLE_DOC", "FIND_SPARK_HOME_PYTHON_SCRIPT"),
    *("SCALA_VERSION_1", "SCALA_VERSION_2", "OLD_PYTHONSTARTUP"),
    *("LANG", "LC_ALL", "TZ", "MASTER", "ARROW_PRE_0_15_IPC_FORMAT", "USER"),
    *("CUDA_VISIBLE_DEVICES", "MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE"),
}
"""What the scripts set themselves before they read it, or what is a word, a number or an address."""


@pytest.mark.parametrize(
    "name",
    [
        "spark.driver.defaultExtraClassPath",
        "spark.executor.defaultExtraClassPath",
        "spark.repl.class.uri",
        "spark.driver.resource.gpu.discoveryScript",
        "spark.kubernetes.container.image",
        "spark.kubernetes.executor.podTemplateFile",
        "spark.hadoop.net.topology.script.file.name",
        "spark.hadoop.hadoop.kerberos.kinit.command",
        "spark.jars.ivy",
        "spark.jars.ivySettings",
        "spark.r.command",
        "SPARK.JARS",
        "spark.sql.hive.metastore.jars.path",
        "spark.yarn.dist.files",
    ],
)
def test_properties_that_name_code(name: str) -> None:
    assert is_code_property(name)


@pytest.mark.parametrize(
    "name", ["spark.plugins", "spark.extraListeners", "spark.sql.shuffle.partitions", "spark.master"]
)
def test_properties_that_name_none(name: str) -> None:
    assert not is_code_property(name)


@pytest.mark.parametrize(
    "name",
    [
        "LD_AUDIT",
        "LD_PRELOAD",
        "GCONV_PATH",
        "PYTHONHOME",
        "PYTHONUSERBASE",
        "PYTHONSTARTUP",
        "SHELLOPTS",
        "PS4",
        "ENV",
        "HOME",
        "BASH_ENV",
        "BASH_FUNC_dirname%%",
        "HADOOP_USER_NAME",
        "LOG4J_CONFIGURATION_FILE",
        "PYSPARK_DRIVER_PYTHON_OPTS",
        "JAVA_OPTS",
        "SPARK_DAEMON_JAVA_OPTS",
        "OPENSSL_CONF",
        "SPARK_PREPEND_CLASSES",
        "HADOOP_HOME",
        "AWS_CONFIG_FILE",
    ],
)
def test_variables_that_name_code(name: str) -> None:
    assert is_code_variable(name)


@pytest.mark.parametrize(
    "name", ["DB_PASSWORD", "TZ", "LANG", "PYTHONUNBUFFERED", "SPARK_LOCAL_IP", "AWS_REGION", "MY_PATH"]
)
def test_variables_that_name_none(name: str) -> None:
    assert not is_code_variable(name)


@pytest.mark.parametrize(
    "text",
    [
        "-Xmx2g -Xss4m -XX:+UseG1GC -XX:MaxGCPauseMillis=200 -ea",
        "-XX:HeapDumpPath=/var/tmp/x.hprof -XX:+HeapDumpOnOutOfMemoryError",
        "-Xlog:gc*:file=/tmp/gc.log:time -Duser.timezone=UTC -Dapp.mode=x",
        "--add-opens=java.base/java.lang=ALL-UNNAMED",
        "",
    ],
)
def test_plain_java_options(text: str) -> None:
    assert list(code_options(text)) == []


@pytest.mark.parametrize(
    "option",
    [
        "-javaagent:/tmp/x.jar",
        "-agentpath:/tmp/x.so",
        "-agentlib:jdwp=transport=dt_socket,server=y",
        "-Xbootclasspath/a:/tmp/x.jar",
        "-XX:OnOutOfMemoryError=/tmp/x.sh",
        "-XX:OnError=id",
        "-XX:Flags=/tmp/x",
        "-XX:SharedArchiveFile=/tmp/x.jsa",
        "-XX:VMOptionsFile=/tmp/x",
        "@/tmp/options",
        "-cp",
        "--module-path=/tmp",
        "--patch-module=java.base=/tmp/x.jar",
        "-Djava.library.path=/tmp",
        "-Dlog4j2.configurationFile=http://evil/x.xml",
        "-Dlog4j.configurationFile=http://evil/x.xml",
        "-Djava.security.properties=/tmp/x",
        "-Dspark.jars=/tmp/x.jar",
        "-Xrunx",
    ],
)
def test_java_options_that_may_load_code(option: str) -> None:
    assert list(code_options(f"-Xmx1g {option}")) == [option]
