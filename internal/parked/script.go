package parked

import "github.com/redisevents/restatestart/internal/wire"

// prelude is what both scripts need.
//
// digest tells one entry from another that got its id in a stream that began again: it is made of the fields that are
// known, so that it comes out the same for an entry that was trimmed meanwhile. sweep forgets what left the parked
// stream once the stored position has passed it.
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
local function resets(notes, partition)
  return redis.call('HGET', notes, partition .. ':resets') or '0'
end
local function sweep(gone, partition, ms, seq)
  if not ms then return end
  for _, field in ipairs(redis.call('HKEYS', gone)) do
    local of, id = field:match('^(%d+)/(.+)$')
    if of == partition then
      local goneMs, goneSeq = parse(id)
      if goneMs and not ahead(goneMs, goneSeq, ms, seq) then redis.call('HDEL', gone, field) end
    end
  end
end
`

// parkScript copies entries from their stream to the parked stream, each unless it stands there, or left it and may
// still come again. Whatever can refuse a write comes before the copy: a script that breaks off behind it would copy the
// entry again the next time. That is why the index is written first, with no id in it yet. Where the parked stream is
// empty, what the index still says is about entries that were trimmed by somebody else.
//
// What left the parked stream is known as long as no reset made its entry come again on purpose: how many resets there
// were is noted with it. An entry that stands there with the very time of this parking was put there by a try of it whose
// answer was lost: it counts as new.
//
// KEYS: source stream, parked stream, index, gone, positions, their meta. ARGV: partition, the number of metadata strings an entry,
// then for each: id, number of strings of the fields to take when it is not in its stream any more, those, metadata but
// for the last value. Returns for each: its new id, known, or missing, when it is not in its stream and no fields came along.
const parkScript = prelude + `
local source, parked, index, gone, positions, notes = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local partition, metas = ARGV[1], tonumber(ARGV[2])
sweep(gone, partition, parse(redis.call('HGET', positions, partition)))
local function stands(field, mark, time)
  if redis.call('HGET', gone, field) == mark .. '|' .. resets(notes, partition) then return 'known' end
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
local answers = {}
local at = 3
while at <= #ARGV do
  local id, held = ARGV[at], tonumber(ARGV[at + 1])
  local meta = at + 2 + held
  local fields, whole = {}, '1'
  local found = redis.call('XRANGE', source, id, id)
  if #found > 0 then
    fields = found[1][2]
  else
    whole = '0'
    for i = at + 2, meta - 1 do fields[#fields + 1] = ARGV[i] end
  end
  if #fields == 0 then
    answers[#answers + 1] = 'missing'
  else
    local field, mark, time = partition .. '/' .. id, digest(fields), nil
    for i = meta, meta + metas - 2, 2 do
      if ARGV[i] == 'parked:time' then time = ARGV[i + 1] end
    end
    local answer = stands(field, mark, time)
    if answer then
      answers[#answers + 1] = answer
    else
      redis.call('HSET', index, field, '|' .. mark)
      local add = {parked, '*'}
      for i = 1, #fields do add[#add + 1] = fields[i] end
      for i = meta, meta + metas - 1 do add[#add + 1] = ARGV[i] end
      add[#add + 1] = whole
      local parkedID = redis.call('XADD', unpack(add))
      redis.call('HSET', index, field, parkedID .. '|' .. mark)
      answers[#answers + 1] = parkedID
    end
  end
  at = meta + metas
end
return answers
`

// removeScript takes an entry out of the parked stream. While the stored position has not passed it, it is remembered as
// gone, first, so that a crash cannot park it again.
//
// KEYS: parked stream, index, gone, positions, their meta. ARGV: id, the number of metadata strings of an entry. Returns its metadata,
// and nothing when there is no such entry.
const removeScript = prelude + `
local parked, index, gone, positions, notes = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local found = redis.call('XRANGE', parked, ARGV[1], ARGV[1])
if #found == 0 then return {} end
local fields = found[1][2]
local partition, entry = last(fields, 'parked:partition') or '', last(fields, 'parked:entry') or ''
local field = partition .. '/' .. entry
local id, mark = (redis.call('HGET', index, field) or ''):match('^([%d%-]+)|(.*)$')
local ms, seq = parse(redis.call('HGET', positions, partition))
sweep(gone, partition, ms, seq)
if id == ARGV[1] then
  local entryMs, entrySeq = parse(entry)
  if not ms or ahead(entryMs, entrySeq, ms, seq) then redis.call('HSET', gone, field, mark .. '|' .. resets(notes, partition)) end
end
redis.call('XDEL', parked, ARGV[1])
if id == ARGV[1] then redis.call('HDEL', index, field) end
local meta = {}
for i = math.max(1, #fields - tonumber(ARGV[2]) + 1), #fields do meta[#meta + 1] = fields[i] end
return meta
`
