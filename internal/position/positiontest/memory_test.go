package positiontest_test

import (
	"testing"

	"github.com/redisevents/restatestart/internal/position/positiontest"
)

func TestMemoryConformsToTheSuite(t *testing.T) {
	t.Parallel()
	positiontest.Run(t, func(*testing.T) positiontest.Harness {
		store := &positiontest.Memory{}
		return positiontest.Harness{Store: store, Other: store, RequestReset: store.RequestReset}
	})
}
