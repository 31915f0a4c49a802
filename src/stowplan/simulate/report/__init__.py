"""Results for people: tables, and one HTML page that opens anywhere without a network."""
