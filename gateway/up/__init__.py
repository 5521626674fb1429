"""`packetboat up`: everything on one machine."""
