"""The functions of terms, a module for each family; `table` has all of them."""
