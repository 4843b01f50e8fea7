"""What the site has that no page says: reference from the code, and links that leave the pages."""
