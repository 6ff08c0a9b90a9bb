package payout

import "testing"

// StartService is NewService for a test: the service closes with the test.
func StartService(tb testing.TB, names ...string) *Service {
	tb.Helper()
	service, err := NewService(names...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := service.Close(); err != nil {
			tb.Error(err)
		}
	})
	return service
}
