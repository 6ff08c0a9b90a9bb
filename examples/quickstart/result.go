package main

import "fmt"

// result is what came of the run.
type result struct {
	published, kept, started, duplicates, blocked, lost int
}

// judge holds what the ingress knows against what was published. The consumer is not asked: it is the accused.
func judge(publisher *publisher, ingress ingress, watcher *watcher) result {
	published, kept := publisher.counts()
	keys := ingress.StartedKeys(workflow)
	started := make(map[string]bool, len(keys))
	for _, key := range keys {
		started[key] = true
	}
	r := result{
		published: published, kept: kept, started: len(started),
		duplicates: ingress.Duplicates(), blocked: watcher.holds,
	}
	for _, claim := range publisher.claims {
		if !started[claim] {
			r.lost++
		}
	}
	return r
}

func (r result) String() string {
	return fmt.Sprintf("published=%d kept=%d started=%d duplicates=%d blocked=%d lost=%d",
		r.published, r.kept, r.started, r.duplicates, r.blocked, r.lost)
}
