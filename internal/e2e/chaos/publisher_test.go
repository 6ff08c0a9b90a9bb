package chaos_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisevents/restatestart/internal/wire"
)

// publisher adds messages to a topic until it is told to stop. What Redis does not answer it adds again, until it does:
// an entry whose answer was lost is there twice then, and both count. The next message of a key comes only after that.
type publisher struct {
	name       string
	keys       wire.Keys
	client     redis.UniversalClient
	partitions *atomic.Int64 // of the topic, by now
	pause      time.Duration // between two messages
	copies     int           // replicas that must have an entry for it to count as acknowledged
	random     *rand.Rand

	mu           sync.Mutex
	acknowledged []string
	repeats      int
}

// Of the messages this many in a hundred start a payout, and this many of those a key that is new.
const (
	keptPercent = 45
	newPercent  = 55
	recentKeys  = 12 // the others are of one of the last keys
)

func (p *publisher) run(ctx context.Context) {
	type key struct {
		name      string
		partition int // it keeps it when the topic grows
	}
	var recent []key
	for n := 0; ctx.Err() == nil; n++ {
		m := message{Name: fmt.Sprintf("%s-%06d", p.name, n)}
		partition := p.random.IntN(int(p.partitions.Load()))
		if p.random.IntN(100) < keptPercent {
			if len(recent) == 0 || p.random.IntN(100) < newPercent {
				recent = append(recent, key{fmt.Sprintf("c-%s-%06d", p.name, n), partition})
				recent = recent[max(0, len(recent)-recentKeys):]
			}
			chosen := recent[p.random.IntN(len(recent))]
			m.Claim, partition = chosen.name, chosen.partition
		}
		if !p.publish(ctx, partition, m) {
			return
		}
		rest(ctx, p.pause)
	}
}

// publish adds a message until that is answered. It is false when the context ended before.
func (p *publisher) publish(ctx context.Context, partition int, m message) bool {
	const retryPause = 50 * time.Millisecond
	for ctx.Err() == nil {
		copied, err := p.add(ctx, partition, m)
		if err == nil {
			if copied {
				p.mu.Lock()
				p.acknowledged = append(p.acknowledged, m.Name)
				p.mu.Unlock()
			}
			return true
		}
		p.mu.Lock()
		p.repeats++
		p.mu.Unlock()
		rest(ctx, retryPause)
	}
	return false
}

// add tells that the entry is there, and whether it has its copies: a failover keeps it then.
func (p *publisher) add(ctx context.Context, partition int, m message) (copied bool, err error) {
	body, err := json.Marshal(m)
	if err != nil {
		return false, err
	}
	entry := wire.Entry{Body: string(body), HasBody: true, Type: "BetSettled", Key: m.Claim}
	pipeline := p.client.Pipeline()
	pipeline.XAdd(ctx, &redis.XAddArgs{Stream: p.keys.Stream(partition), Values: entry.Fields()})
	var wait *redis.Cmd
	if p.copies > 0 {
		wait = pipeline.Do(ctx, "WAIT", p.copies, 100)
	}
	if _, err := pipeline.Exec(ctx); err != nil || wait == nil {
		return err == nil, err
	}
	have, err := wait.Int()
	return have >= p.copies, err
}

// told is what was acknowledged, and how many adds were not.
func (p *publisher) told() (acknowledged []string, repeats int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.acknowledged...), p.repeats
}

// rest waits in real time: what these tests wait for happens in other processes.
func rest(ctx context.Context, wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
