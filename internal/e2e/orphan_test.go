package e2e_test

// orphanVariable set in its environment makes the test binary leave a server behind in place of running tests.
const orphanVariable = "E2E_LEAVE_ORPHAN"
