"""Which requests are served when there are more than can be: decided before anything of them is."""
