"""What tenants may use, and what they used: limits over all processes, and metering."""
