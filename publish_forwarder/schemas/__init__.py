"""What a body must look like: definitions, checks and compatibility. Pure; knows no topics."""
