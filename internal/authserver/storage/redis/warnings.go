package redis

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	goredis "github.com/redis/go-redis/v9"
)

// maxPolicy bounds what is shown of a server's answer.
const maxPolicy = 40

// Warnings returns what an operator should change at the servers, a sentence for each: a
// server that may evict keys loses sign-ins and tokens when its memory is full.
func (s *Store) Warnings(ctx context.Context) []string {
	var mu sync.Mutex
	var warnings []string
	err := s.each(ctx, func(ctx context.Context, c goredis.UniversalClient) error {
		info, err := c.Info(ctx, "memory").Result()
		if err != nil {
			return err
		}
		if w := evictionWarning(info); w != "" {
			mu.Lock()
			defer mu.Unlock()
			if !slices.Contains(warnings, w) {
				warnings = append(warnings, w)
			}
		}
		return nil
	})
	if err != nil {
		warnings = append(warnings, fmt.Sprintf("whether Redis may evict keys is not known: %v", err))
	}
	return warnings
}

// evictionWarning reads the answer to INFO. All our keys expire, so every policy but
// noeviction may evict them.
func evictionWarning(info string) string {
	var limit, policy string
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch name {
		case "maxmemory":
			limit = value
		case "maxmemory_policy":
			policy = value
		}
	}
	if policy == "" || policy == "noeviction" || limit == "0" {
		return ""
	}
	if len(policy) > maxPolicy {
		policy = policy[:maxPolicy]
	}
	return fmt.Sprintf("Redis may evict sign-ins and tokens when its memory is full: its maxmemory-policy is %q; set noeviction", policy)
}
