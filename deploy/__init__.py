"""What CaseHub runs beside: the services that its tests need."""
