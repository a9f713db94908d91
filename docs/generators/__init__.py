"""What the documentation takes from the code: each module makes one kind of list, as Markdown."""
