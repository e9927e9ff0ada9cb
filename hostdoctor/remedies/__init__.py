"""What to change on a host so that its findings go away; nothing here changes anything."""
