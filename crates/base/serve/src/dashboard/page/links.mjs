// The links: what each consumer receives, loses and holds back; names are those of the monitor.
import { byId } from './dom.mjs';
import { scaled, withDelta } from './format.mjs';
import { Table } from './table.mjs';

const COLUMNS = [
  { name: 'link', isText: true, text: (l) => l.link, order: (l) => l.link },
  { name: 'consumer', isText: true, text: (l) => l.consumer, order: (l) => l.consumer },
  { name: 'tot TPS', help: 'frags a second taken', text: (l) => scaled(l.total_per_s), order: (l) => l.total_per_s },
  { name: 'tot bps', help: 'payload bits a second read', text: (l) => scaled(l.bits_per_s), order: (l) => l.bits_per_s },
  { name: 'uniq TPS', help: 'taken and not filtered', text: (l) => scaled(l.unique_per_s), order: (l) => l.unique_per_s },
  { name: 'filt TPS', help: 'skipped unread', text: (l) => scaled(l.filtered_per_s), order: (l) => l.filtered_per_s },
  { name: 'waiting', help: 'frags on the link', text: (l) => `${l.waiting}`, order: (l) => l.waiting },
  { name: 'ovrnp cnt', help: 'overtaken while polling', text: (l) => withDelta(l.overrun_poll, l.overrun_poll_delta), order: (l) => l.overrun_poll, hot: (l) => l.overrun_poll_delta > 0 },
  { name: 'ovrnr cnt', help: 'overtaken while reading', text: (l) => withDelta(l.overrun_read, l.overrun_read_delta), order: (l) => l.overrun_read, hot: (l) => l.overrun_read_delta > 0 },
  { name: 'slow cnt', help: 'times it held the producer up', text: (l) => withDelta(l.slow, l.slow_delta), order: (l) => l.slow, hot: (l) => l.slow_delta > 0 },
  { name: 'tx seq', help: 'frags published', text: (l) => withDelta(l.sequence, l.sequence_delta), order: (l) => l.sequence },
];

let table;

export function setUp() {
  table = new Table('Links', COLUMNS, (link) => `${link.link} ${link.consumer}`, 'The node has not joined its tiles yet: their links appear here when it has.');
  byId('links').append(table.element);
}

export const draw = (sample) => table.show(sample.links);
