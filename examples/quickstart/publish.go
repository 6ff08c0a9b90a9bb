package main

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	lead       = time.Second // publishing time before the outage, and after it
	claimEvery = 20          // one bet in this many has a claim
	tick       = 20 * time.Millisecond
	pipeline   = 500 // bets per round trip
)

// publisher writes bets as a RedisEvents producer does, and records their claims.
type publisher struct {
	rdb    redis.UniversalClient
	config config

	mu        sync.Mutex
	published int
	claims    []string
}

// createTopic records the topic's number of partitions, unless it exists.
func (p *publisher) createTopic(ctx context.Context) error {
	_, err := p.rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.HSetNX(ctx, metaKey(p.config), "partitions", p.config.partitions)
		pipe.HSetNX(ctx, metaKey(p.config), "v", 1)
		return nil
	})
	if err != nil {
		return fmt.Errorf("create topic %s: %w", topic, err)
	}
	return nil
}

// publish spreads the bets evenly over the time before, during and after the outage.
func (p *publisher) publish(ctx context.Context) error {
	begin, duration := time.Now(), lead+p.config.outage+lead
	for sent := 0; ; {
		due := min(1, float64(time.Since(begin))/float64(duration))
		for upTo := int(due * float64(p.config.bets)); sent < upTo; {
			next := min(sent+pipeline, upTo)
			if err := p.send(ctx, sent, next); err != nil {
				return err
			}
			sent = next
		}
		if sent == p.config.bets {
			return nil
		}
		if err := sleep(ctx, tick); err != nil {
			return err
		}
	}
}

// send publishes the bets numbered from first up to, but not including, last.
func (p *publisher) send(ctx context.Context, first, last int) error {
	_, err := p.rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for number := first; number < last; number++ {
			bet := p.bet(number)
			body, err := json.Marshal(bet)
			if err != nil {
				return err
			}
			if bet.ClaimID != "" {
				p.addClaim(bet.ClaimID)
			}
			// All entries of an account go to one partition, in order. RedisEvents chooses it by a hash of the key.
			account := number / claimEvery
			pipe.XAdd(ctx, &redis.XAddArgs{
				Stream: streamKey(p.config, account%p.config.partitions),
				Values: []any{"b", body, "t", "BetSettled", "k", fmt.Sprintf("account-%d", account)},
			})
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("publish bets %d to %d: %w", first, last-1, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.published = last
	return nil
}

// addClaim is called before the claim is published: its workflow may start at any moment after.
func (p *publisher) addClaim(claim string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.claims = append(p.claims, claim)
}

func (p *publisher) bet(number int) BetSettled {
	bet := BetSettled{BetID: fmt.Sprintf("bet-%d", number), AmountCents: int64(100 + number%900)}
	if number%claimEvery == claimEvery-1 {
		bet.ClaimID = claimID(p.config, number)
	}
	return bet
}

// claimID differs from run to run: Restate remembers keys from earlier runs.
func claimID(config config, number int) string { return fmt.Sprintf("claim-%s-%d", config.run, number) }

// counts returns the number of bets published so far, and of claims among them.
func (p *publisher) counts() (published, claims int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.published, len(p.claims)
}

// sleep returns ctx's error if that is cancelled first.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
