// Conversations in the browser's own database, one record each.

const DATABASE = "shoal";
const STORE = "conversations";

function open() {
    return new Promise((resolve, reject) => {
        const request = indexedDB.open(DATABASE, 1);
        request.onupgradeneeded = () => request.result.createObjectStore(STORE, { keyPath: "id" });
        request.onsuccess = () => resolve(request.result);
        request.onerror = () => reject(request.error);
    });
}

async function perform(mode, act) {
    const database = await open();
    return new Promise((resolve, reject) => {
        const transaction = database.transaction(STORE, mode);
        const request = act(transaction.objectStore(STORE));
        transaction.oncomplete = () => {
            database.close();
            resolve(request.result);
        };
        transaction.onerror = () => reject(transaction.error);
    });
}

// All conversations, the one changed last first.
export async function loadConversations() {
    const all = await perform("readonly", (store) => store.getAll());
    return all.sort((a, b) => b.changed - a.changed);
}

export function storeConversation(conversation) {
    return perform("readwrite", (store) => store.put(structuredClone(conversation)));
}

export function removeConversation(id) {
    return perform("readwrite", (store) => store.delete(id));
}
