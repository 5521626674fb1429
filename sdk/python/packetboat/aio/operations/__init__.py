"""Operations of areas whose other methods are written by hand, in `resources`."""
