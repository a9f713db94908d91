"""How late rows came, and what another allowed lateness or another bound would have saved and cost."""
