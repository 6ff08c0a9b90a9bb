package contender

import (
	"net/http"
	"time"

	"github.com/redis/go-redis/v9"
)

// tunedClient keeps a connection for each start under way: what somebody would do who has measured once.
func tunedClient(parallelism int) *http.Client {
	return &http.Client{
		Transport: &http.Transport{MaxIdleConnsPerHost: parallelism, IdleConnTimeout: 90 * time.Second, DisableCompression: true},
		Timeout:   10 * time.Second,
	}
}

// redisClient has a connection for each partition and some more.
func redisClient(task Task) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: task.Redis, PoolSize: task.Partitions + 8})
}
