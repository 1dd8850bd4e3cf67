"""Amazon S3 and what speaks its protocol: ``s3a://``, ``s3://``, ``s3n://``."""
