"""What every agent knows without having seen it printed. The lists are a part of the rule.

They are short on purpose: a word stands here because agents write it unasked, so that an output
that happens to hold it says nothing.
"""

from __future__ import annotations

from typing import Final


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


COMMON: Final = _words("""
    python2 python3 python3.8 python3.9 python3.10 python3.11 python3.12 python3.13 pip3 node18
    sha1 sha224 sha256 sha384 sha512 sha1sum sha256sum sha512sum md5sum md5 base32 base64 crc32
    utf8 utf-8 utf16 utf-16 latin1 latin-1 iso-8859-1 cp1252 x86_64 amd64 arm64 aarch64 i386 i686
    int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 bfloat16 u8 u32 u64
    ipv4 ipv6 http2 tls1.2 tls1.3 oauth2 ed25519 bzip2 gzip2 lz4 mp3 mp4 h264 s3 ec2 k8s log4j
    sqlite3 postgresql psycopg2 boto3 urllib3 utf8mb4 libc6 gtk3 qt5 cuda gpt2 gpt-2 gpt-3 gpt-4
    iso8601 rfc3339 rfc2822 ext4 tmp1 tmp2 test1 test2 test3 file1 file2 file3 item1 item2 step1
    step2 step3 step4 step5 part1 part2 case1 case2 foo1 bar1 var1 val1 col1 col2 key1 key2 key3
    0x00 0x01 0xff 0xffff 1st 2nd 3rd 4th 5th 10th 24h 60s 30s 10s 5min 1kb 1mb 1gb 10mb 100mb
    content-type content-length content-encoding user-agent accept-encoding cache-control
    tensorflow transformers scikit-learn matplotlib beautifulsoup4
    stdin stdout stderr localhost example.com github.com pypi.org
    bin/sh bin/bash usr/bin/env usr/bin/python usr/bin/python3 bin/python3 usr/bin usr/local/bin
    usr/local usr/lib usr/local/lib usr/share dev/null dev/stdin dev/stdout dev/stderr dev/zero
    dev/urandom etc/hosts etc/passwd var/log var/tmp env/bash env/python3 env/python
    dist-packages site-packages and/or true/false yes/no input/output read/write i/o n/a
    not_found no_such_file __init__ __main__ __name__ __file__ __future__ __pycache__ __dict__
    __class__ __version__ file_path file_name filename file_size dir_path dir_name base_dir
    user_id user_name username start_time end_time created_at updated_at time_stamp timestamp
    max_length min_length max_size min_size num_rows num_cols row_count total_count line_count
    error_message error_msg status_code exit_code return_code returncode output_file input_file
    output_dir input_dir output_path input_path data_dir data_path config_file config_path log_file
    log_path test_file test_data is_valid to_string from_string get_data set_data load_data
    save_data read_file write_file random_state random_seed train_test_split batch_size num_epochs
    learning_rate hidden_size input_size output_size model_name model_path
    capture_output universal_newlines ensure_ascii exist_ok missing_ok sort_keys allow_abbrev
    n_estimators max_iter num_workers return_tensors
    true_positive DataFrame JavaScript TypeScript GitHub PyTorch NumPy OpenSSL MySQL
    PostgreSQL FileNotFoundError ValueError TypeError KeyError IndexError RuntimeError ImportError
    AttributeError OSError IOError ModuleNotFoundError NameError SyntaxError AssertionError
    ZeroDivisionError UnicodeDecodeError PermissionError TimeoutError ConnectionError
    JSONDecodeError KeyboardInterrupt NotImplementedError Exception StopIteration
    README.md readme.md setup.py pyproject.toml requirements.txt package.json Makefile Dockerfile
    docker-compose.yml index.html index.js __init__.py __main__.py conftest.py Cargo.toml go.mod
    tsconfig.json CMakeLists.txt LICENSE.txt test.py main.c main.cpp script.py script.sh test.sh
    test.txt run.sh output.txt output.json output.csv temp.txt tmp.txt file.txt foo.txt hello.txt
""")
"""Tokens that never count, compared without regard to case."""

COMMON_NUMBERS: Final = _words("""
    1000 1024 2000 2048 3000 4000 4096 5000 6000 7000 8000 8192 9000 10000 16384 20000 32768 50000
    65535 65536 100000 131072 200000 262144 500000 524288 1000000 1048576 1000000000 2147483647
    4294967295 8080 8081 8443 8888 3306 5432 6379 9090 27017 9200 0644 0755 0600 0700 0777
    1234 12345 123456 1234567 12345678 123456789 1234567890 9999 99999 3600 86400 1440
    3.1415 3.14159 3.141592 3.1415926 3.14159265 3.141592653589793 2.718 2.71828 2.718281828459045
    40320 362880 3628800 39916800 479001600
""")
"""Numbers that never count; nor do 1900 to 2099, years."""

SHORT_NUMBERS: Final = _words("""
    10 11 12 13 14 15 16 20 22 24 25 30 31 32 40 42 50 60 64 70 80 90 99 100 120 127 128 150 200
    201 202 204 224 250 255 256 300 301 302 304 360 365 400 401 403 404 409 443 444 500 502 503
    512 555 600 640 644 666 700 720 750 755 777 800 900 999
    1.0 2.0 1.5 2.5 0.25 0.75 0.05 0.01 0.10 0.50 0.95 0.99 3.14 2.71 9.81
""")
"""Numbers of two and three digits that never count."""

MODULES: Final = _words("""
    os sys re io json csv math time random datetime collections itertools functools subprocess
    shutil pathlib logging argparse string struct threading socket hashlib base64 glob copy typing
    unittest pytest numpy np pandas pd torch nn plt matplotlib sklearn scipy requests self cls
    super str int list dict set tuple bytes f e i.e e.g console process Math JSON Object Array
    document window module fs path System java std fmt strings errors df ax fig logger parser args
    response result request app conn cursor sqlite3 tf keras F optim model tokenizer data row line
    ast inspect importlib tempfile multiprocessing asyncio urllib http email xml html zipfile
    tarfile gzip pickle contextlib dataclasses enum uuid warnings traceback signal select queue
""")
"""What stands before the dot of names that every program uses, such as `subprocess.run`."""

FILE_ENDINGS: Final = _words("""
    txt csv tsv json jsonl ndjson log md rst py pyc ipynb sh bash yaml yml toml ini cfg conf xml
    html htm css js ts jsx tsx c h cc cpp hpp rs go java rb pl php lua r jl sql db sqlite gz zip tar
    tgz bz2 xz zst 7z png jpg jpeg gif svg pdf dat bin img iso pem key crt cer csr pub parquet npy
    npz pkl pt pth onnx safetensors h5 lock service bak old orig out err env deb rpm whl so o a exe
    dll mp4 wav mp3 doc docx xls xlsx ppt eml mbox patch diff tmpl j2 tf proto vim asm s
""")
"""Endings by which a word with a dot is a file's name rather than an attribute."""

ATTRIBUTES: Final = _words("""
    log out err env key lock patch service proto bin img s a c h o r so db dat svg
""")
"""Endings that behind a module's name are an attribute of it."""

ENDINGS: Final = tuple(
    sorted(
        _words("""
    tion tions sion sions ment ments ally fully ingly ness ings ing able ible ities ity ies ated
    ates ional ously ance ence ances ences ively ically izer izers izing ized ship ships wise ward
    wards ntly edly seconds
""")
    )
)
"""Endings of words out of which prose is made; a long word with one says nothing."""

COMMON_NAMES: Final = _words("""
    bin src lib libs test tests data docs doc logs tmp temp home root user users main master output
    outputs input inputs result results build dist config configs script scripts model models util
    utils core common public private static assets images include includes example examples demo
    index readme license makefile dockerfile setup node_modules target release debug cache vendor
    total name names none null true false done error errors warning info success failed pass passed
    file files path type size date time value values count number string text list item items line
    lines python bash node java ruby perl rust curl grep find echo make head tail sort uniq wget
    then else this that with from into have been each only more some such when where which while
    start stop status open close read write copy move delete create update insert select table
    http https localhost server client host port address request response method content body
    default version help usage options option arguments command commands process service system
    admin guest email password token secret hello world sample train valid validation code work
    app application package packages module modules class function object array import export
    return print format json yaml html plain linux debian ubuntu alpine docker
""")
"""Words that listings hold and that texts use for other reasons."""
