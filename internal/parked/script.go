package parked

import "github.com/redisevents/restatestart/internal/wire"

// prelude has the functions that both scripts use.
//
// digest distinguishes entries of the same id, which a stream that was deleted and created anew may have. It covers the
// fields of the layout only, so that it is the same for an entry that was trimmed meanwhile. sweep deletes the record of
// removed entries that the stored position has passed.
const prelude = wire.LuaIDs + `
local function last(fields, name)
  for i = #fields - 1, 1, -2 do
    if fields[i] == name then return fields[i + 1] end
  end
  return nil
end
local function digest(fields)
  local parts = {}
  for i, name in ipairs({'b', 't', 'k', 'c', 'p', 'h'}) do
    local value = last(fields, name)
    if value then parts[i] = #value .. ':' .. value
    elseif name == 'b' then parts[i] = '-'
    else parts[i] = '0:' end
  end
  return redis.sha1hex(table.concat(parts))
end
local function resets(meta, partition)
  return redis.call('HGET', meta, partition .. ':resets') or '0'
end
local function sweep(removed, partition, ms, seq)
  if not ms then return end
  for _, field in ipairs(redis.call('HKEYS', removed)) do
    local of, id = field:match('^(%d+)/(.+)$')
    if of == partition then
      local removedMs, removedSeq = parse(id)
      if removedMs and not ahead(removedMs, removedSeq, ms, seq) then redis.call('HDEL', removed, field) end
    end
  end
end
`

// parkScript copies entries from their stream to the parked stream, except those that are there, or were removed from it
// and may be redelivered. Every command that can fail comes before the copy: a script that is aborted after it would copy
// the entry again the next time. So the index is written first, without an id. If the parked stream is empty, the index
// is about entries that somebody else trimmed.
//
// A removed entry is recorded with the number of resets at that time: after another reset it is redelivered on purpose,
// and parked again. An entry that is there with the time of this call was parked by an attempt whose reply was lost: it
// counts as new.
//
// KEYS: source stream, parked stream, index, removed, positions, their meta. ARGV: partition, number of metadata strings
// per entry, then for each entry: id, number of strings of its fields, those fields (used if it is not in its stream), its
// metadata without the last value. Returns for each: its new id; known; or missing, when it is not in its stream and no
// fields were sent.
const parkScript = prelude + `
local source, parked, index, removed, positions, positionsMeta = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local partition, metas = ARGV[1], tonumber(ARGV[2])
sweep(removed, partition, parse(redis.call('HGET', positions, partition)))
local function find(field, mark, time)
  if redis.call('HGET', removed, field) == mark .. '|' .. resets(positionsMeta, partition) then return 'known' end
  local value = redis.call('HGET', index, field)
  local id, was = (value or ''):match('^([%d%-]+)|(.*)$')
  if not id or was ~= mark then return nil end
  local there = redis.call('XRANGE', parked, id, id)
  if #there == 0 then return nil end
  return last(there[1][2], 'parked:time') == time and id or 'known'
end
if redis.call('XLEN', parked) == 0 then
  for _, field in ipairs(redis.call('HKEYS', index)) do redis.call('HDEL', index, field) end
end
local replies = {}
local at = 3
while at <= #ARGV do
  local id, meta = ARGV[at], at + 2 + tonumber(ARGV[at + 1])
  local fields, complete = {}, '1'
  local found = redis.call('XRANGE', source, id, id)
  if #found > 0 then
    fields = found[1][2]
  else
    complete = '0'
    for i = at + 2, meta - 1 do fields[#fields + 1] = ARGV[i] end
  end
  if #fields == 0 then
    replies[#replies + 1] = 'missing'
  else
    local field, mark, time = partition .. '/' .. id, digest(fields), nil
    for i = meta, meta + metas - 2, 2 do
      if ARGV[i] == 'parked:time' then time = ARGV[i + 1] end
    end
    local reply = find(field, mark, time)
    if reply then
      replies[#replies + 1] = reply
    else
      redis.call('HSET', index, field, '|' .. mark)
      local add = {parked, '*'}
      for i = 1, #fields do add[#add + 1] = fields[i] end
      for i = meta, meta + metas - 1 do add[#add + 1] = ARGV[i] end
      add[#add + 1] = complete
      local parkedID = redis.call('XADD', unpack(add))
      redis.call('HSET', index, field, parkedID .. '|' .. mark)
      replies[#replies + 1] = parkedID
    end
  end
  at = meta + metas
end
return replies
`

// removeScript removes an entry from the parked stream. If the stored position has not passed it, it is recorded as removed
// first, so that a crash cannot park it again.
//
// KEYS: parked stream, index, removed, positions, their meta. ARGV: id, number of metadata strings per entry. Returns the
// entry's metadata, nothing when there is no such entry.
const removeScript = prelude + `
local parked, index, removed, positions, positionsMeta = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local found = redis.call('XRANGE', parked, ARGV[1], ARGV[1])
if #found == 0 then return {} end
local fields = found[1][2]
local partition, entry = last(fields, 'parked:partition') or '', last(fields, 'parked:entry') or ''
local field = partition .. '/' .. entry
local id, mark = (redis.call('HGET', index, field) or ''):match('^([%d%-]+)|(.*)$')
local ms, seq = parse(redis.call('HGET', positions, partition))
sweep(removed, partition, ms, seq)
if id == ARGV[1] then
  local entryMs, entrySeq = parse(entry)
  if not ms or ahead(entryMs, entrySeq, ms, seq) then redis.call('HSET', removed, field, mark .. '|' .. resets(positionsMeta, partition)) end
end
redis.call('XDEL', parked, ARGV[1])
if id == ARGV[1] then redis.call('HDEL', index, field) end
local meta = {}
for i = math.max(1, #fields - tonumber(ARGV[2]) + 1), #fields do meta[#meta + 1] = fields[i] end
return meta
`
