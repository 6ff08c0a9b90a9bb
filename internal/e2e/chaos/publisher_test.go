package chaos_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisevents/restatestart/internal/e2e/kit"
)

// publisher adds messages to a topic. What Redis does not answer it adds again: an entry whose answer was lost is there twice
// then, and both count. The next message of a key comes only after that.
type publisher struct {
	*kit.Topic

	name       string
	partitions *atomic.Int64 // of the topic, at the moment
	pause      time.Duration // between two messages
	copies     int           // replicas that must have an entry for it to count as acknowledged
	random     *rand.Rand

	mu           sync.Mutex
	acknowledged []string
	repeats      int
}

// Of the messages this many in a hundred start a payout, and this many of those have a new key.
const (
	keptPercent = 45
	newPercent  = 55
	recentKeys  = 12 // the others have one of the last keys
)

func (p *publisher) run(ctx context.Context) {
	type key struct {
		name      string
		partition int // it stays there when the topic grows
	}
	var recent []key
	for n := 0; ctx.Err() == nil; n++ {
		bet := kit.Bet{ID: fmt.Sprintf("%s-%06d", p.name, n)}
		partition := p.random.IntN(int(p.partitions.Load()))
		if p.random.IntN(100) < keptPercent {
			if len(recent) == 0 || p.random.IntN(100) < newPercent {
				recent = append(recent, key{fmt.Sprintf("c-%s-%06d", p.name, n), partition})
				recent = recent[max(0, len(recent)-recentKeys):]
			}
			chosen := recent[p.random.IntN(len(recent))]
			bet.Claim, partition = chosen.name, chosen.partition
		}
		if !p.publish(ctx, partition, bet) {
			return
		}
		kit.Sleep(ctx, p.pause)
	}
}

// publish adds a message until that is answered. It is false when the context ended first.
func (p *publisher) publish(ctx context.Context, partition int, bet kit.Bet) bool {
	const retryPause = 50 * time.Millisecond
	for ctx.Err() == nil {
		copied, err := p.add(ctx, partition, bet)
		p.mu.Lock()
		switch {
		case err != nil:
			p.repeats++
		case copied:
			p.acknowledged = append(p.acknowledged, bet.ID)
		}
		p.mu.Unlock()
		if err == nil {
			return true
		}
		kit.Sleep(ctx, retryPause)
	}
	return false
}

// add reports whether the entry has its copies, so that a failover keeps it.
func (p *publisher) add(ctx context.Context, partition int, bet kit.Bet) (copied bool, err error) {
	args, err := p.XAdd(partition, bet)
	if err != nil {
		return false, err
	}
	pipeline := p.Client.Pipeline()
	pipeline.XAdd(ctx, args)
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
