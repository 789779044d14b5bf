"""Where CaseHub meets other systems and formats, a module each."""
