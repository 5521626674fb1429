"""Jobs over HTTP: made and watched by those who want a result, claimed by workers."""
