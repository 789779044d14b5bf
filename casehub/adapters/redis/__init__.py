"""What CaseHub keeps in Redis (extra `redis`)."""
