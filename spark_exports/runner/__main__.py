"""`python -m spark_exports.runner`: the same as `packetboat export-runner`."""

from spark_exports.runner.command import main

if __name__ == "__main__":
    main()
